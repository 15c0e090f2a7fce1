"use strict";

// All text, whoever wrote it, reaches the page through this function, as text.
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
  setText("heading", view.error ? "" : view.heading);
  fill("notes", view.notes, note => element("li", null, note), byId("notes"));
  fill("malformed", view.malformed, malformed);
  fill("limits", view.limits, limit);
  fill("times", view.times, row => moment(row, view.ticks));
  fill("findings", view.findings, finding);
  if (view.clean) {
    byId("findings").append(element("li", null, "None: the response keeps every rule that a single response can show."));
    byId("findings-section").hidden = false;
  }
  fill("forms", view.forms, form);
  fill("refused", view.refused, f => element("li", null, element("code", null, f.name), ` ${f.text}`));
  byId("axis").replaceChildren(...(view.ticks ?? []).map(axisLabel));
  byId("json-section").hidden = !view.json;
  byId("json").replaceChildren(...(view.json ? copyable("JSON", view.json) : []));
}

// setText leaves a text alone that is the same, so that nobody hears it twice.
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
  return element("li", {class: "card limit", "data-state": l.state},
    element("h3", null, l.name),
    element("p", {class: "left"}, l.state === "exhausted" ? badge("exhausted", "bad") : "", ...left(l)),
    bar,
    element("dl", null,
      pair("unit", l.unit), pair("window", l.window),
      pair("reset", l.reset, l.guessed ? badge("unit guessed", "warn") : ""),
      pair("partition key", l.key)));
}

// left returns "3 of 4 left", without what is not known.
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

function malformed(m) {
  const children = [element("p", null, m.error)];
  if (m.placed) {
    children.push(element("pre", {class: "at", tabindex: 0, "aria-label": "the text at fault"}, m.before,
      element("mark", null, m.at || " ", element("span", {class: "caret", "aria-hidden": "true"}, "^")), m.after));
  }
  return element("li", {class: "card fault"}, ...children);
}

function finding(f) {
  const tone = {must: "bad", should: "warn"}[f.level] ?? "plain";
  return element("li", {class: "finding"}, badge(f.level, tone),
    element("p", null, element("b", null, `${f.rule} ${f.place}`), `: ${f.message}`));
}

function form(f) {
  const name = element("h3", null, f.name);
  if (f.note) name.append(" ", element("small", null, f.note));
  return element("li", {class: "card form", "data-form": f.name}, name, ...copyable(f.name, f.text));
}

// copyable returns a text, and a button that copies it.
function copyable(name, text) {
  const pre = element("pre", {tabindex: 0, "aria-label": name}, text);
  const button = element("button", {type: "button", "aria-label": `Copy ${name}`}, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch { // without a clipboard the user copies what is selected
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

// soon reads at the next frame, or a moment after the last key where that would take long.
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
  byId("text").addEventListener("input", () => {
    byId("captures").value = "";
    soon();
  });
  read();
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
}

function offer(captures) {
  const select = byId("captures");
  const texts = new Map(captures.map(c => [c.name, c.text]));
  select.append(...captures.map(c => element("option", {value: c.name}, c.name)));
  select.disabled = false;
  select.addEventListener("change", () => {
    byId("text").value = texts.get(select.value) ?? "";
    read();
  });
  const first = "express-draft-8-two-1";
  if (byId("text").value === "" && texts.has(first)) {
    select.value = first;
    byId("text").value = texts.get(first);
  }
}

start().catch(problem => {
  console.error(problem);
  show({error: "the page cannot be loaded: it needs WebAssembly, and a web server", tone: "none"});
});
