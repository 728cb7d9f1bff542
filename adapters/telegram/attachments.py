"""Files that came along with a message, as handles."""

from __future__ import annotations

from adapters.contract import InboundFile
from adapters.telegram.payload import Payload, a_number, a_text, an_object, objects

# Field of a message: ending and media type, where the server tells neither.
FILE_FIELDS = {
    "animation": ("mp4", "video/mp4"),  # before documents, as which it comes along too
    "document": ("bin", "application/octet-stream"),
    "video": ("mp4", "video/mp4"),
    "audio": ("mp3", "audio/mpeg"),
    "voice": ("ogg", "audio/ogg"),
    "video_note": ("mp4", "video/mp4"),
    "sticker": ("webp", "application/octet-stream"),
}


def files_of(message: Payload) -> tuple[InboundFile, ...]:
    """The files of a message, a photo in its largest size. Names and sizes are what the sender's side claims."""
    fields = dict(FILE_FIELDS)
    if "animation" in message:
        del fields["document"]  # the same file once more, for clients that know no animations
    found = [_file(an_object(message.get(field)), field, *told) for field, told in fields.items()]
    sizes = sorted(objects(message.get("photo")), key=_area)
    found.append(_file(sizes[-1] if sizes else {}, "photo", "jpg", "image/jpeg"))
    return tuple(file for file in found if file.id)


def _area(size: Payload) -> int:
    return a_number(size.get("width")) * a_number(size.get("height"))


def _file(thing: Payload, field: str, ending: str, media_type: str) -> InboundFile:
    return InboundFile(
        id=a_text(thing.get("file_id")),
        name=a_text(thing.get("file_name")) or f"{field}_{a_text(thing.get('file_unique_id'))}.{ending}",
        media_type=a_text(thing.get("mime_type")) or media_type,
        size=a_number(thing.get("file_size")),
    )
