// Draws what the room shows and sends what the person does. Text is only ever put in as text.

const NAMES = { telegram: "Telegram", slack: "Slack", discord: "Discord" };
const STYLES = { link: "linkish" };
const MAX_FILE = 1 << 20;

let token = "";

async function send(path, body = {}) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Pilothouse-Token": token },
    body: JSON.stringify(body),
  });
  const answer = response.headers.get("Content-Type")?.startsWith("application/json")
    ? await response.json()
    : { problem: await response.text() };
  return response.ok ? "" : answer.problem;
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// ------------------------------------------------------------------------------------------------ one message

const BLOCKS = { text: "p", code: "pre", quote: "blockquote", small: "p", heading: "p" };

function drawBlock(block) {
  if (block.kind === "rule") return element("hr");
  const spans = block.spans.map((span) => {
    if (!span.styles.length) return document.createTextNode(span.text);
    const drawn = element("span", { textContent: span.text });
    drawn.className = span.styles.map((style) => STYLES[style] ?? style).join(" ");
    if (span.target) drawn.title = span.target;
    return drawn;
  });
  return element(BLOCKS[block.kind], { className: block.kind }, ...spans);
}

function drawMessage(pane, message) {
  const flags = ["mine", "inside", "only", "writing"].filter((flag) => message[flag]);
  const time = new Date(message.at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const notes = [time, message.edited && "edited", message.only && "only you see this", message.writing && "writing …"];
  const head = element("div", { className: "head" }, element("b", { textContent: message.who }));
  head.append(notes.filter(Boolean).join(" · "), drawActs(pane, message));
  const drawn = element("article", { className: ["message", ...flags].join(" ") }, head);
  drawn.dataset.id = message.id;
  drawn.append(...message.blocks.map(drawBlock));
  for (const file of message.files) drawn.append(element("div", { className: "files", textContent: `📎 ${file}` }));
  if (message.reactions.length) {
    drawn.append(element("div", { className: "reactions", textContent: message.reactions.join(" ") }));
  }
  for (const row of message.buttons) {
    drawn.append(element("div", { className: "row" }, ...row.map((button) => drawButton(pane, message, button))));
  }
  return drawn;
}

function drawButton(pane, message, button) {
  const drawn = element("button", { type: "button", textContent: button.label, disabled: button.disabled });
  drawn.className = button.style;
  drawn.dataset.key = button.data;
  drawn.addEventListener("click", () => pane.do("press", { message: message.id, data: button.data }));
  return drawn;
}

function drawActs(pane, message) {
  const acts = element("span", { className: "acts" });
  if (message.writing) return acts;
  const act = (label, title, run) => {
    const button = element("button", { type: "button", className: "quiet", textContent: label, title });
    button.setAttribute("aria-label", title);
    button.dataset.key = title;
    button.addEventListener("click", run);
    acts.append(button);
  };
  act("👍", message.liked ? "Take the thumb away" : "Put a thumb under it", () =>
    pane.do("like", { message: message.id, on: !message.liked }));
  if (message.mine) {
    act("✎", "Edit this message", () => pane.beginEdit(message));
    act("🗑", "Delete this message", () => pane.do("delete", { message: message.id }));
  }
  return acts;
}

// --------------------------------------------------------------------------------------------------- one pane

class Pane {
  constructor(platform) {
    this.platform = platform;
    this.root = document.getElementById("pane").content.firstElementChild.cloneNode(true);
    this.root.dataset.platform = platform;
    this.part = (selector) => this.root.querySelector(selector);
    this.drawn = new Map();
    this.editing = null;
    this.form = "";
    this.answering = "";
    this.prepare();
    document.getElementById("panes").append(this.root);
  }

  prepare() {
    const words = this.part("textarea");
    words.id = `words-${this.platform}`;
    this.part(".composer label.sr").htmlFor = words.id;
    this.part(".composer label.sr").textContent = `Message to ${NAMES[this.platform]}`;
    this.part(".name").textContent = NAMES[this.platform];
    this.root.setAttribute("aria-label", NAMES[this.platform]);
    this.part(".messages").setAttribute("aria-label", `Messages of ${NAMES[this.platform]}`);
    words.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.part(".composer").requestSubmit();
      } else if (event.key === "Escape") this.leave();
    });
    this.part(".composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.write();
    });
    this.part("[type=file]").addEventListener("change", (event) => {
      this.part(".file-name").textContent = event.target.files[0]?.name ?? "";
    });
    this.part(".fresh").addEventListener("click", () => this.leave());
  }

  async do(deed, body) {
    const problem = await send(`/panes/${this.platform}/${deed}`, body);
    this.part(".alert").textContent = problem;
    return !problem;
  }

  async write() {
    const words = this.part("textarea");
    const file = this.part("[type=file]").files[0];
    const text = words.value.trim();
    if (!text && !file) return;
    let done;
    if (this.editing) done = await this.do("edit", { message: this.editing, text });
    else if (file) done = await this.upload(file, text);
    else done = await this.do("say", { text });
    if (!done) return;
    words.value = "";
    this.part("[type=file]").value = "";
    this.part(".file-name").textContent = "";
    this.setEditing(null);
  }

  async upload(file, text) {
    if (file.size > MAX_FILE) {
      this.part(".alert").textContent = "A file may have at most 1 MiB here.";
      return false;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    let binary = "";
    for (let start = 0; start < bytes.length; start += 0x8000) {
      binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
    }
    return this.do("upload", { name: file.name, content: btoa(binary), text });
  }

  beginEdit(message) {
    const words = this.part("textarea");
    words.value = message.blocks.map((block) => block.spans.map((span) => span.text).join("")).join("\n");
    this.setEditing(message.id);
    words.focus();
  }

  setEditing(id) {
    this.editing = id;
    if (this.last) this.drawWhere(this.last);
  }

  leave() {
    if (this.editing) {
      this.part("textarea").value = "";
      this.setEditing(null);
    } else this.do(this.answering ? "dismiss" : "begin", {});
  }

  draw(state) {
    this.last = state;
    this.root.classList.toggle("connected", state.connected);
    this.part(".link").textContent = state.connected ? "the gateway listens" : "nobody listens";
    this.part(".working").textContent = state.working;
    this.part(".armed").textContent = state.armed.length ? `Prepared: ${state.armed.join(", ")}` : "";
    if (state.alert !== this.alert) this.part(".alert").textContent = this.alert = state.alert;
    this.drawMessages(state.messages);
    this.drawForm(state.form);
    this.answering = state.answering;
    this.drawWhere(state);
  }

  drawWhere(state) {
    const editing = this.editing && "You change your message.";
    const answering = state.answering && `Your words answer: ${state.answering}`;
    this.part(".where-text").textContent = editing || answering || state.where;
    const fresh = this.part(".fresh");
    fresh.textContent = editing ? "Leave it" : answering ? "Do not answer" : "New thread";
    fresh.hidden = !editing && !answering && this.platform === "telegram";
  }

  drawMessages(messages) {
    const place = this.part(".messages");
    const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 60;
    const kept = new Map();
    messages.forEach((message, index) => {
      const looks = JSON.stringify(message);
      let entry = this.drawn.get(message.id);
      if (entry?.looks !== looks) entry = { looks, node: this.redraw(message, entry?.node) };
      if (place.children[index] !== entry.node) place.insertBefore(entry.node, place.children[index] ?? null);
      kept.set(message.id, entry);
    });
    while (place.children.length > messages.length) place.lastChild.remove();
    if (!messages.length) place.append(element("p", { className: "empty", textContent: "Nothing was said yet." }));
    this.drawn = kept;
    if (atEnd) place.scrollTop = place.scrollHeight;
  }

  redraw(message, old) {
    const node = drawMessage(this, message);
    const focused = old?.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    old?.replaceWith(node);
    if (focused !== undefined) node.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    return node;
  }

  // A form is drawn once, so that nothing typed is lost while the chat goes on.
  drawForm(form) {
    const looks = JSON.stringify(form);
    if (looks === this.form) return;
    this.form = looks;
    const place = this.part(".form-place");
    place.replaceChildren();
    if (!form) return;
    const drawn = element("form", { className: "form" }, element("h3", { textContent: form.title }));
    drawn.setAttribute("aria-label", form.title);
    drawn.append(...form.fields.map((field) => drawField(this.platform, field)));
    for (const problem of form.problems) drawn.append(element("p", { className: "alert", textContent: problem }));
    const close = element("button", { type: "button", textContent: "Cancel" });
    close.addEventListener("click", () => this.do("dismiss", {}));
    const submit = element("button", { type: "submit", className: "good", textContent: form.submit });
    drawn.append(element("div", { className: "row" }, submit, close));
    drawn.addEventListener("submit", (event) => {
      event.preventDefault();
      this.do("submit", { values: Object.fromEntries(new FormData(drawn)) });
    });
    drawn.addEventListener("keydown", (event) => event.key === "Escape" && close.click());
    place.append(drawn);
    drawn.querySelector("input, textarea")?.focus();
  }
}

function drawField(platform, field) {
  if (field.options.length) {
    const choices = field.options.map(([value, label]) =>
      element("label", {}, element("input", { type: "radio", name: field.name, value, required: field.required }), ` ${label}`));
    return element("fieldset", {}, element("legend", { textContent: field.label }), ...choices);
  }
  const id = `field-${platform}-${field.name}`;
  const words = element("textarea", { id, name: field.name, rows: 2, maxLength: field.longest, required: field.required });
  return element("div", {}, element("label", { className: "words", htmlFor: id, textContent: field.label }), words);
}

// ------------------------------------------------------------------------------------------- the gateway and faults

function drawGateway(state) {
  const line = document.getElementById("gateway");
  line.dataset.phase = state.phase;
  line.textContent = {
    starting: "the gateway starts …",
    running: `the gateway runs: process ${state.pid}`,
    down: `the gateway is down: ${state.ending}`,
  }[state.phase];
  line.title = `Start it from another terminal:\n${state.restart}\nworkspace: ${state.workspace}`;
  document.getElementById("kill").disabled = state.phase === "down";
  document.getElementById("start").disabled = state.phase !== "down";
}

function listen(id, path, body) {
  document.getElementById(id).addEventListener("click", () => send(path, body));
}

listen("kill", "/gateway/kill");
listen("start", "/gateway/start");
listen("refuse", "/gateway/refuse", { seconds: 3 });
listen("disconnect", "/gateway/disconnect");
listen("advance", "/gateway/advance", { seconds: 60 });

document.getElementById("log-toggle").addEventListener("click", async (event) => {
  const log = document.getElementById("log");
  log.hidden = !log.hidden;
  event.target.setAttribute("aria-expanded", String(!log.hidden));
  if (!log.hidden) log.textContent = (await (await fetch("/log")).text()) || "Nothing was logged yet.";
});

const panes = new Map(Object.keys(NAMES).map((platform) => [platform, new Pane(platform)]));

document.addEventListener("keydown", (event) => {
  const pane = event.altKey && [...panes.values()][Number(event.key) - 1];
  if (pane) {
    event.preventDefault();
    pane.part("textarea").focus();
  }
});

const events = new EventSource("/events");
events.addEventListener("token", (event) => (token = event.data));
events.addEventListener("gateway", (event) => drawGateway(JSON.parse(event.data)));
for (const [platform, pane] of panes) events.addEventListener(platform, (event) => pane.draw(JSON.parse(event.data)));
events.addEventListener("error", () => {
  const line = document.getElementById("gateway");
  line.dataset.phase = "down";
  line.textContent = "the trial is over, or this page lost it";
});
