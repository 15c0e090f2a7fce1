"use strict";

// element makes an element. Strings become text in it, never markup.
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== null && value !== "") e.setAttribute(name, value);
  }
  e.append(...children);
  return e;
}

const byId = id => document.getElementById(id);
const percent = part => `${100 * part}%`;

// fill shows a list, and hides the section around it if there is nothing in it.
function fill(id, list, render, section = byId(`${id}-section`)) {
  byId(id).replaceChildren(...(list ?? []).map(render));
  section.hidden = !list?.length;
}

function show(view) {
  const summary = byId("summary");
  summary.dataset.tone = view.error ? "none" : view.tone;
  setText("advice", view.error ? sentence(view.error) : view.advice);
  setText("reason", view.reason ? `Why: ${view.reason}` : "");
  setText("heading", view.error ? "" : view.heading);
  fill("notes", view.notes, note => element("li", null, note), byId("notes"));
  fill("limits", view.limits, limit);
  fill("times", view.times, row => moment(row, view.ticks));
  byId("axis").replaceChildren(...(view.ticks ?? []).map(axisLabel));
  fill("faults", view.faults, fault);
  if (view.clean) {
    byId("faults").append(element("li", {class: "card"}, "Nothing: it keeps every rule that a single response can show."));
    byId("faults-section").hidden = false;
  }
  showForms(view.forms ?? []);
  byId("json-section").hidden = !view.json;
  byId("json").replaceChildren(...(view.json ? copyable("JSON", view.json) : []));
  point(0);
}

// setText changes only a text that differs, so that a screen reader does not repeat it.
function setText(id, text) {
  const e = byId(id);
  if (e.textContent !== text) e.textContent = text;
}

const sentence = text => `${text[0].toUpperCase()}${text.slice(1)}.`;

function limit(l) {
  const bar = element("div", {class: "bar"});
  if (l.filled !== null) {
    const fill = element("span", {class: "fill"});
    fill.style.width = percent(l.filled);
    bar.append(fill);
    for (const [name, value] of Object.entries({
      role: "meter", "aria-label": `${l.name}: what remains of the quota`, "aria-valuemin": 0, "aria-valuemax": 100,
      "aria-valuenow": Math.floor(100 * l.filled), "aria-valuetext": `${l.remaining} of ${l.quota} left, ${l.unit}`,
    })) bar.setAttribute(name, value);
  } else {
    bar.classList.add("unknown");
  }
  return element("li", {class: "card limit", "data-exhausted": l.exhausted},
    element("h3", null, l.name),
    element("p", {class: "left"}, l.exhausted ? badge("exhausted", "bad") : "", ...left(l)),
    bar,
    element("dl", null,
      pair("unit", l.unit), pair("window", l.window),
      pair("reset", l.reset, l.guessed ? badge("unit guessed", "warn") : ""),
      pair("partition key", l.key)));
}

// left returns "3 of 4 left", without the unknown numbers.
function left(l) {
  const number = (name, value) => element("span", {"data-of": name}, value);
  const word = text => element("span", {class: "of"}, text);
  if (l.remaining === "-") return l.quota === "-" ? [] : [word("quota "), number("quota", l.quota)];
  const of = l.quota === "-" ? [] : [word(" of "), number("quota", l.quota)];
  return [number("remaining", l.remaining), ...of, word(" left")];
}

function pair(name, value, ...more) {
  if (value === "-") return "";
  return element("div", null, element("dt", null, name), element("dd", null, element("span", {"data-of": name}, value), ...more));
}

const badge = (text, tone) => element("span", {class: "badge", "data-tone": tone}, text);

function moment(m, ticks) {
  const track = element("span", {class: "track", "aria-hidden": "true"}, ...ticks.map(t => at(t.at, "tick")));
  if (m.at !== null) {
    const span = element("span", {class: "span"});
    span.style.width = percent(m.at);
    track.append(span, at(m.at, "dot"));
  }
  return element("li", {"data-next": m.next ? "true" : ""},
    element("span", {class: "name"}, m.name), " ", element("span", {class: "when"}, m.text), track);
}

// at returns an element at a part of the time line.
function at(part, name, ...children) {
  const e = element("span", {class: name}, ...children);
  e.style.left = percent(part);
  return e;
}

function axisLabel(t) {
  const label = at(t.at, "label", t.text);
  label.dataset.edge = t.at === 0 ? "start" : t.at > 0.97 ? "end" : "";
  return label;
}

function fault(f) {
  const tone = {must: "bad", malformed: "bad", should: "warn"}[f.level] ?? "plain";
  const text = [f.cause, f.remedy].filter(part => part).map(sentence).join(" ");
  const children = [element("p", null, badge(f.level, tone), " ", element("b", null, f.place)), element("p", null, text)];
  if (f.placed) {
    children.push(element("pre", {class: "at", tabindex: 0, "aria-label": "the text at fault"}, f.before,
      element("mark", null, f.at || " ", element("span", {class: "caret", "aria-hidden": "true"}, "^")), f.after));
  }
  const card = element("li", {class: "card fault", "data-tone": tone}, ...children);
  if (f.line) {
    card.append(element("dl", null, where(f.line)));
    card.addEventListener("mouseenter", () => point(f.line));
    card.addEventListener("mouseleave", () => point(0));
  }
  return card;
}

// where returns a button with the number of a line of the text, for use without a mouse.
function where(line) {
  const button = element("button", {type: "button", class: "link"}, `line ${line}`);
  button.addEventListener("focus", () => point(line));
  button.addEventListener("blur", () => point(0));
  button.addEventListener("click", () => { // on some touch screens a click gives no focus
    point(line);
    byId("text").scrollIntoView({block: "nearest"});
  });
  return element("div", null, element("dt", null, "from"), element("dd", null, button));
}

// point marks a line of the text, in a copy of it that lies behind. With 0 it marks none.
function point(line) {
  const text = byId("text"), copy = byId("copy");
  const before = text.value.split("\n", line).map(text => element("div", null, text || " "));
  copy.replaceChildren(...before);
  const marked = before[line - 1];
  if (!marked) return;
  marked.className = "pointed";
  const top = marked.offsetTop, bottom = top + marked.offsetHeight;
  if (top < text.scrollTop || bottom > text.scrollTop + text.clientHeight) text.scrollTop = top - text.clientHeight / 3;
  copy.style.transform = `translateY(${-text.scrollTop}px)`;
}

// The chosen form stays chosen when the text changes.
let forms = [];
function showForms(list) {
  forms = list;
  const select = byId("form");
  const chosen = select.value;
  select.replaceChildren(...list.map(f => element("option", {value: f.name}, f.error ? `${f.name} (not possible)` : f.name)));
  if (list.some(f => f.name === chosen)) select.value = chosen;
  byId("forms-section").hidden = list.length === 0;
  showForm();
}

function showForm() {
  const f = forms.find(f => f.name === byId("form").value);
  setText("form-note", !f ? "" : f.error ? `These limits cannot be written in this form: ${f.error}` : f.note);
  byId("form-text").replaceChildren(...(f && !f.error ? copyable("fields", f.text) : []));
}

// copyable returns a text, and a button that copies it.
function copyable(name, text) {
  const pre = element("pre", {tabindex: 0, "aria-label": name}, text);
  const button = element("button", {type: "button", "aria-label": `Copy ${name}`}, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch { // without a clipboard the user copies the selection
      getSelection().selectAllChildren(pre);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return [button, pre];
}

function read() {
  const text = byId("text").value;
  if (text.trim() === "") {
    show({error: "paste a response, or pick a capture", tone: "none"});
    return;
  }
  try {
    show(JSON.parse(readRateLimits(text)));
  } catch (problem) {
    console.error(problem);
    show({error: "the reader has stopped: reload the page", tone: "none"});
  }
}

// soon reads the text at the next frame. If that would take long, it waits until the user
// stops typing.
let waiting;
function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(read, byId("text").value.length < 20_000 ? 0 : 200);
}

async function load(name) {
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return response;
}

// The fragment of the address holds the text, so that the address can be shared. Browsers
// do not send it to servers. Text that would make the address too long is left out.
const longest = 16_000;
let sharing;
function share() {
  clearTimeout(sharing);
  sharing = setTimeout(() => {
    const fragment = encodeURIComponent(byId("text").value.toWellFormed());
    const short = fragment.length <= longest;
    history.replaceState(null, "", short && fragment ? `#${fragment}` : location.pathname + location.search);
    setText("shared", short ? "" : "It is too long for the address of the page, which holds shorter texts, to share them.");
  }, 300);
}

// shared returns the text in the address, or "" if there is none.
function shared() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

async function start() {
  const go = new Go();
  const [program, captures] = await Promise.all([
    load("playground.wasm").then(r => r.arrayBuffer()).then(b => WebAssembly.instantiate(b, go.importObject)),
    load("captures.json").then(r => r.json()),
  ]);
  // From here on the page can send nothing: policies add up.
  document.head.append(element("meta", {"http-equiv": "Content-Security-Policy", content: "default-src 'none'"}));
  go.run(program.instance);
  offer(captures);
  const text = byId("text");
  text.addEventListener("input", () => {
    byId("captures").value = "";
    soon();
    share();
  });
  text.addEventListener("scroll", () => { byId("copy").style.transform = `translateY(${-text.scrollTop}px)`; });
  byId("form").addEventListener("change", showForm);
  addEventListener("hashchange", () => {
    byId("captures").value = "";
    text.value = shared();
    read();
  });
  read();
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
}

// offer lists the captures. It shows the text in the address, or else the first capture.
function offer(captures) {
  const select = byId("captures"), text = byId("text");
  const texts = new Map(captures.map(c => [c.name, c.text]));
  for (const [group, list] of Map.groupBy(captures, c => c.group)) {
    select.append(element("optgroup", {label: group}, ...list.map(c => element("option", {value: c.name}, c.name))));
  }
  select.disabled = false;
  select.addEventListener("change", () => {
    text.value = texts.get(select.value) ?? "";
    read();
    share();
  });
  if (text.value === "") text.value = shared();
  if (text.value === "") {
    select.value = captures[0].name;
    text.value = captures[0].text;
  }
}

start().catch(problem => {
  console.error(problem);
  show({error: "the page cannot be loaded: it needs WebAssembly, and a web server", tone: "none"});
});
