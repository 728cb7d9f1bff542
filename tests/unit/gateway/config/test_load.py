"""Reading the configuration: every mistake gets one sentence with place, expectation and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import Config, ConfigurationInvalid, load
from gateway.exits import ExitCode
from gateway.secrets import Secret

TOKEN = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file of mode 0600 that is still empty."""
    path = tmp_path / "pilothouse.toml"
    path.touch(mode=0o600)
    return path


def problems(file: Path, text: str, environ: dict[str, str] | None = None, **options: bool) -> list[str]:
    """The sentences for a file with this text, without the folder in front."""
    file.write_text(text)
    with pytest.raises(ConfigurationInvalid) as caught:
        load(file, environ or {}, **options)
    return [str(problem).replace(f"{file.parent}/", "") for problem in caught.value.problems]


def test_empty_file_gives_the_defaults(file: Path) -> None:
    """A file without a line holds the defaults, with paths that start at its folder."""
    config = load(file, {})
    assert config.gateway.state_dir == file.parent / ".pilothouse"
    assert config.access == Config().access
    assert config.file == file


def test_missing_file_names_the_remedy(tmp_path: Path) -> None:
    """A file that is not there is an error with a way out, not an empty configuration."""
    with pytest.raises(ConfigurationInvalid, match=r"nowhere\.toml does not exist; run `pilothouse init`"):
        load(tmp_path / "nowhere.toml", {})


WRONG = [
    ("[gateway]\nhtp = 1", "pilothouse.toml:2: gateway.htp is not a key that pilothouse knows; did you mean `http`?"),
    (
        "[gatway]\n",
        "pilothouse.toml:1: gatway is not a key that pilothouse knows; did you mean `gateway`?",
    ),
    (
        '[gateway]\n\ndrain_seconds = "20"',
        "pilothouse.toml:3: gateway.drain_seconds must be a number, and it is text; write it without quotes, like 0.5.",
    ),
    (
        "[telegram]\npoll_seconds = 2.5",
        "pilothouse.toml:2: telegram.poll_seconds must be a whole number, and it is a number; "
        "write it without quotes, like 30.",
    ),
    (
        "[telegram]\npoll_seconds = true",
        "pilothouse.toml:2: telegram.poll_seconds must be a whole number, and it is true or false; "
        "write it without quotes, like 30.",
    ),
    ("[telegram]\npoll_seconds = 99", "pilothouse.toml:2: telegram.poll_seconds must be at most 50; lower it."),
    (
        '[telegram]\nmode = "socket"',
        "pilothouse.toml:2: telegram.mode must be one of 'polling' or 'webhook'; choose one of these words.",
    ),
    (
        '[gateway]\nhttp = "0.0.0.0:8642"',
        "pilothouse.toml:2: gateway.http must be an address of this machine only; write it like `127.0.0.1:8642`.",
    ),
    (
        '[gateway]\ntimezone = "Mars/Base"',
        "pilothouse.toml:2: gateway.timezone is not a time zone that this machine knows; "
        "write it like `Europe/Berlin` or `UTC`.",
    ),
    (
        '[telegram]\napi_base = "ftp://x"',
        "pilothouse.toml:2: telegram.api_base must be an address that begins with https:// or http://; "
        "write the whole address of the server.",
    ),
    (
        "gateway = 3",
        "pilothouse.toml:1: gateway must be a table, and it is a number; write its keys below a header in brackets.",
    ),
    (
        '[[models]]\nname = "a"\nprovider = "demo"\n[[models]]\nprovider = "demo"',
        "pilothouse.toml:4: models[1].name is missing; add `name = …` there.",
    ),
    (
        '[[models]]\nname = "a"\nprovider = "demo"\n[[models]]\nname = "a"\nprovider = "demo"',
        "pilothouse.toml:5: models[1].name is `a`, which is taken already; choose another one.",
    ),
    (
        '[[models]]\nname = "a"\nprovider = "openai"\nmodel = "m"',
        "pilothouse.toml:1: models[0].api_key is missing, and openai answers nobody without a key; "
        "set api_key_file or PILOTHOUSE_MODEL_A_API_KEY.",
    ),
    (
        '[[bindings]]\nchat = "1"',
        "pilothouse.toml:2: bindings[0].chat is given without `platform`; add the platform.",
    ),
    (
        '[[bindings]]\nworkspace = "w"',
        "pilothouse.toml:2: bindings[0].workspace names `w`, and no [[workspaces]] entry is called so; "
        "correct the name, or add the entry.",
    ),
    (
        '[[bindings]]\nplatform = "slack"\n[[bindings]]\nplatform = "slack"',
        "pilothouse.toml:3: bindings[1] is for the same place as an entry before it; "
        "join the two, or name another chat or thread.",
    ),
    (
        '[slack]\nbot_token = "xoxb-1-abcdef"',
        "pilothouse.toml:1: slack.app_token is missing, and mode is `socket`; "
        "set app_token, app_token_file or PILOTHOUSE_SLACK_APP_TOKEN.",
    ),
    (
        "[gateway]\nhttp = ",
        "pilothouse.toml:2 is not valid TOML: invalid value; correct it; config.example.toml shows the form.",
    ),
    (
        '[access]\nowners = ["telegran:42"]',
        "pilothouse.toml:2: access.owners[0] has 'telegran:42', and there is no platform 'telegran'; "
        "correct it; known are discord, slack, telegram, terminal.",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG)
def test_mistake_gets_one_sentence(file: Path, text: str, sentence: str) -> None:
    """One mistake, one sentence: file, line, key, what kind of value belongs there, and the remedy."""
    assert problems(file, text) == [sentence]


def test_all_mistakes_come_at_once(file: Path) -> None:
    """Nobody has to repair one mistake to hear of the next."""
    text = '[gateway]\nhtp = 1\n[telegram]\ntoken = " "\nmode = "x"\n[access]\nusers = ["@alice", ""]\n'
    found = problems(file, text)
    assert [sentence.split(" ")[1] for sentence in found] == [
        "telegram.token",
        "gateway.htp",
        "telegram.mode",
        "access.users[0]",
        "access.users[1]",
    ]


def test_line_is_found_below_long_texts(file: Path) -> None:
    """A text of several lines, with lines in it that look like keys, does not shift the line numbers."""
    text = '[[agents]]\nname = "a"\ninstructions = """\ntools = 1\n[gateway]\n"""\ntools = 3\n'
    assert problems(file, text) == [
        'pilothouse.toml:7: agents[0].tools must be a list, and it is a number; write it in brackets, like ["a", "b"].'
    ]


def test_sub_table_belongs_to_the_last_entry(file: Path) -> None:
    """A mistake in [bindings.limits] is shown where it stands."""
    text = '[[bindings]]\nplatform = "slack"\n[[bindings]]\n[bindings.limits]\nusd_per_day = -1\n'
    assert problems(file, text) == ["pilothouse.toml:5: bindings[1].limits.usd_per_day must be at least 0; raise it."]


def test_mistyped_secret_is_not_repeated(file: Path) -> None:
    """A value of the wrong kind in a secret's place does not appear in the error."""
    file.write_text("[discord]\ntoken = 8642197531")
    with pytest.raises(ConfigurationInvalid) as caught:
        load(file, {})
    assert "8642197531" not in str(caught.value)
    assert "discord.token must be text" in str(caught.value)


def test_not_utf8_names_the_line(file: Path) -> None:
    """A file in another encoding is refused with the line of the first foreign byte."""
    file.write_bytes(b"[gateway]\n# caf\xe9\n")
    with pytest.raises(ConfigurationInvalid, match="toml:2 is not UTF-8"):
        load(file, {})


def test_folder_instead_of_a_file(tmp_path: Path) -> None:
    """A folder in the file's place is an error, not a crash."""
    with pytest.raises(ConfigurationInvalid, match="cannot be read: is a directory"):
        load(tmp_path, {})


def test_secret_sources_in_order(file: Path, tmp_path: Path) -> None:
    """The environment stands over the service manager's credentials, those over a file, and that over nothing."""
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "telegram_token").write_text("1:from-credentials\n")
    (tmp_path / "token").write_text("1:from-file\n")
    file.write_text('[telegram]\ntoken_file = "token"\n')
    directory = {"CREDENTIALS_DIRECTORY": str(credentials)}
    variable = {"PILOTHOUSE_TELEGRAM_TOKEN": "1:from-environment"}
    assert load(file, {}).telegram.token == Secret("1:from-file")
    assert load(file, directory).telegram.token == Secret("1:from-credentials")
    assert load(file, directory | variable).telegram.token == Secret("1:from-environment")


def test_environment_alone_switches_a_platform_on(file: Path) -> None:
    """A token in the environment needs no section in the file."""
    config = load(file, {"PILOTHOUSE_TELEGRAM_TOKEN": TOKEN})
    assert config.platforms()["telegram"]["token"] == TOKEN
    assert config.platforms()["telegram"]["poll_seconds"] == 25


def test_key_of_a_model_comes_by_its_name(file: Path) -> None:
    """Each model has a variable of its own, also with signs in its name that no variable can have."""
    file.write_text('[[models]]\nname = "gpt-5"\nprovider = "openai"\nmodel = "m"\n')
    config = load(file, {"PILOTHOUSE_MODEL_GPT_5_API_KEY": "sk-abcdef"})
    assert config.models[0].api_key == Secret("sk-abcdef")
    assert config.warnings == ()


def test_misspelt_variable_is_reported(file: Path) -> None:
    """A variable with our prefix that means nothing is told, since its secret would be missed in silence."""
    config = load(file, {"PILOTHOUSE_TELEGRAM_TOKN": "x", "OTHER": "y", "PILOTHOUSE_CONFIG": "z"})
    assert config.warnings == (
        "The environment variable PILOTHOUSE_TELEGRAM_TOKN means nothing to pilothouse; "
        "did you mean PILOTHOUSE_TELEGRAM_TOKEN?",
    )


UNUSABLE: list[tuple[str, dict[str, str], str]] = [
    ('[telegram]\ntoken_file = "nowhere"', {}, "no such file or directory"),
    ('[telegram]\ntoken_file = "folder"', {}, "is a directory"),
    ('[telegram]\ntoken_file = "blank"', {}, "is empty"),
    ('[telegram]\ntoken_file = "lines"', {}, "has blanks or line breaks inside"),
    ('[telegram]\ntoken_file = "binary"', {}, "is no text"),
    ('[telegram]\ntoken_file = "huge"', {}, "is far too long"),
    ('[telegram]\ntoken = "1:a"\ntoken_file = "lines"', {}, "is given beside token_file"),
    (
        "",
        {"PILOTHOUSE_TELEGRAM_TOKEN": " "},
        "the environment variable PILOTHOUSE_TELEGRAM_TOKEN and is empty",
    ),
    ('[telegram]\ntoken = "   "', {}, "is empty"),
]


@pytest.mark.parametrize(("text", "environ", "reason"), UNUSABLE)
def test_unusable_secret_is_a_credential_problem(
    file: Path, tmp_path: Path, text: str, environ: dict[str, str], reason: str
) -> None:
    """A secret that is named and cannot be used is an error with a code of its own, never an absent secret."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "blank").write_text("\n")
    (tmp_path / "lines").write_text("one two")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "huge").write_text("x" * 20_000)
    file.write_text(text)
    with pytest.raises(ConfigurationInvalid) as caught:
        load(file, environ)
    assert reason in str(caught.value).replace("which ", "")
    assert len(caught.value.problems) == 1
    assert caught.value.exit_code is ExitCode.CREDENTIALS


def test_what_is_needed_to_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid file that cannot run yet says what is missing, with the way to get it; folders are not made."""
    monkeypatch.setattr("gateway.config.checks.find_spec", lambda name: name)
    assert [line.split("; ")[0] for line in problems(file, "", to_run=True)] == [
        "pilothouse.toml switches no chat platform on",
        "pilothouse.toml has no [[workspaces]] entry",
    ]
    assert problems(file, "models = []", to_run=True)[1].startswith("pilothouse.toml has no [[models]] entry")
    text = '[[workspaces]]\nid = "w"\npath = "work"\n[terminal]\nenabled = true'
    folder = file.parent / "work"
    sentence = f"pilothouse.toml:3: workspaces[0].path is '{folder}', which does not exist; correct the path, "
    file.write_text(text)
    with pytest.raises(ConfigurationInvalid) as caught:
        load(file, {}, to_run=True)
    assert str(caught.value).startswith(f"{file.parent}/{sentence}or create it with `mkdir -p {folder}`.")
    assert caught.value.exit_code is ExitCode.WORKSPACE
    assert not folder.exists()
    folder.mkdir()
    config = load(file, {}, to_run=True)
    assert config.workspaces[0].path == folder
    assert [(one.name, one.provider) for one in config.models] == [("demo", "demo")]


UNBUILT = [
    ("[adapters.matrix]\nx = 1", "pilothouse.toml:1: adapters.matrix switches matrix on, and there is no adapter"),
    (
        '[terminal]\nenabled = true\n[[models]]\nname = "a"\nprovider = "google"\nmodel = "m"\napi_key = "abcdefgh"',
        "pilothouse.toml:5: models[0].provider is `google`, and its library is not installed; install it with",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), UNBUILT)
def test_what_is_not_built_is_said_before_the_start(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    """A platform, mode or provider that this version cannot serve is an error, and not a silent absence."""
    built = {"adapters.telegram", "adapters.terminal"}
    monkeypatch.setattr("gateway.config.checks.find_spec", lambda name: name if name in built else None)
    assert any(line.startswith(sentence) for line in problems(file, text, to_run=True))


def test_settings_of_a_strange_adapter(file: Path, tmp_path: Path) -> None:
    """An adapter of another package gets its table with its secrets read in, and they do not show in the config."""
    (tmp_path / "pass").write_text("hunter2-hunter2\n")
    file.write_text('[adapters.matrix]\nserver = "https://m"\naccess_token = "abcdefgh"\npassword_file = "pass"\n')
    settings = {"server": "https://m", "access_token": "abcdefgh", "password": "hunter2-hunter2"}
    config = load(file, {})
    assert config.platforms() == {"matrix": settings}
    assert "hunter2" not in repr(config)
    assert "abcdefgh" not in repr(config)


def test_problem_for_machines(file: Path) -> None:
    """The same facts as in the sentence, as fields."""
    file.write_text("[gateway]\nhtp = 1")
    with pytest.raises(ConfigurationInvalid) as caught:
        load(file, {})
    assert [problem.as_json() for problem in caught.value.problems] == [
        {
            "file": str(file),
            "line": 2,
            "key": "gateway.htp",
            "message": "is not a key that pilothouse knows",
            "remedy": "did you mean `http`?",
            "exit_code": 2,
        }
    ]
