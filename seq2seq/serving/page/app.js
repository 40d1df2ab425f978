// Types, asks, shows. Words are what spaces part, as in the alignment of the server's answers.
import { ask, by, element, say, session, speak, tongue } from "./common.js";

const PAUSE = 300; // milliseconds of silence before the server is asked
const HOVER = 200; // milliseconds on a word before its attention is asked for
const N_BEST = 4;
let shown = null; // the translation on the right: {text, words, alignment, parts, ...}
let asked = ""; // its source
let running = null; // AbortController of the request that is under way
let timer = 0; // of the next translation
let pointed = null; // the word below the pointer
const attended = new Map(); // attention of sentences, as the server answered
let models = [{ source: "en", target: "fr" }]; // until the server tells
const model = () => models[by("model").selectedIndex] ?? models[0];

const tell = (text) => (by("status").textContent = text);

function later(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(translate, milliseconds);
}

// What stands on the right is not, or not yet, the translation of what stands on the left.
function wait(waiting) {
  by("words").classList.toggle("waiting", waiting);
  by("copy").disabled = waiting;
}
const isWaiting = () => by("words").classList.contains("waiting");

// The lines of the glossary, cut at their "=" or tab.
const glossary = () => by("terms").value.split("\n").filter((line) => line.trim())
  .map((line) => line.split(/=|\t/).map((part) => part.trim()));
const isPair = (parts) => parts.length === 2 && parts.every(Boolean);

// What of the input is not used.
function omitted() {
  if (by("source").value.length >= by("source").maxLength) return say("full");
  const line = glossary().find((parts) => !isPair(parts));
  return line ? say("unread", line.join(" = ")) : "";
}

function request(text, more = {}) {
  const terms = Object.fromEntries(glossary().filter(isPair));
  running?.abort();
  running = new AbortController();
  const own = { text, terms, source: model().source, model: model().name, alignment: true, scores: true };
  return ask("v1/translate", { ...own, decode: { n_best: N_BEST }, ...more }, running.signal);
}

async function translate() {
  wait(true);
  if (!model().name && !(await connect())) return;
  clearTimeout(timer); // of what was typed meanwhile
  const text = by("source").value;
  by("others").hidden = true;
  if (!text.trim()) {
    running?.abort();
    tell("");
    return show(null, text);
  }
  const found = await answered(request(text));
  if (found) {
    show(found.translations[0], text);
    tell(omitted());
    offer(say("others"), shown.alternatives ?? [], (one) => show(one, text));
  }
}

// The answer, or nothing if it failed (which is told) or was overtaken by another request.
// A translation that failed is tried again if that may help.
async function answered(promise) {
  try {
    const found = await promise;
    tell("");
    return found;
  } catch (error) {
    if (error.name === "AbortError") return null;
    tell(error.message);
    if (error.seconds && isWaiting()) later(1000 * error.seconds);
    return null;
  }
}

function show(translation, source) {
  shown = translation;
  asked = source;
  const text = shown?.text ?? "";
  let number = 0;
  const parts = text.split(/(\s+)/);
  by("words").replaceChildren(...parts.map((part) => (part.trim() ? wordButton(part, number++) : part)));
  wait(by("source").value !== source);
  by("words").querySelector("button")?.setAttribute("tabindex", "0");
  by("spoken").textContent = text;
  by("partner").textContent = "";
  by("notes").replaceChildren(...(shown?.notes ?? []).map((note) => element("li", note)));
  by("copy").hidden = by("attention").hidden = !text;
  aim(...(shown?.parts?.[0] ?? [source, text]));
  session.setItem("source", source);
  point([]);
}

// The sentence whose attention the other page shows: behind the #, which no server gets.
function aim(source, target) {
  by("attention").hash = encodeURIComponent(JSON.stringify([source, target, model().name]));
}

function wordButton(text, number) {
  const button = element("button", text);
  const sure = shown.words?.[number]?.confidence;
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.number = number;
  if (sure !== undefined) button.title = `${Math.round(100 * sure)} %`;
  if (sure < 0.9) button.style.setProperty("--share", (0.9 - sure).toFixed(2));
  return button;
}

// Partners: words of the source are marked below what is typed, those of the target where they are.
// `weights` are attention: how much of it each word of the source got, from 0 to 1.

function point(sources, targets = [], weights = []) {
  pointed = null;
  let number = 0;
  by("mirror").replaceChildren(...`${by("source").value}\n`.split(/(\s+)/).map((part) => {
    if (!part.trim()) return part;
    const mark = element("mark", part);
    mark.classList.toggle("partner", sources.includes(number));
    mark.style.setProperty("--weight", weights[number++] ?? 0);
    return mark;
  }));
  by("mirror").scrollTop = by("source").scrollTop;
  for (const button of by("words").children) {
    button.classList.toggle("partner", targets.includes(Number(button.dataset.number)));
  }
}

async function pointFrom(event) {
  const button = event.target.closest?.("#words button");
  if (!button || !shown) return;
  const number = Number(button.dataset.number);
  const sources = (shown.alignment ?? []).filter(([, t]) => t === number).map(([s]) => s);
  const words = asked.trim().split(/\s+/);
  const sure = button.title ? ` · ${say("sure")} ${button.title}` : "";
  const partners = sources.map((s) => words[s]).join(" ") || "–";
  const { source, origin, start, end, place } = sentenceOf(button);
  const target = shown.text.slice(start, end);
  aim(source, target);
  by("partner").textContent = `${button.textContent} ← ${partners}${sure}`;
  point(sources, [number]);
  pointed = button;
  await new Promise((resolve) => setTimeout(resolve, HOVER));
  if (pointed !== button) return;
  const others = Array(wordAt(asked, origin)); // of sentences before
  const word = count(shown.text.slice(start, place));
  const weights = await attentionOf(source, target, word).catch(() => []); // none of a long sentence
  if (pointed === button) point(sources, [number], [...others, ...weights]);
}

const count = (text) => text.split(/\s+/).filter(Boolean).length;
const wordAt = (text, place) => count(`${text.slice(0, place)}x`) - 1; // the number of the word there
const wordOf = (tokens) => {
  let word = -1;
  return tokens.map((token, t) => (token === "</s>" ? -1 : (word += !t || token.startsWith("▁"))));
};

// What a word of a sentence looked at, on average over all layers and heads, for each source word.
async function attentionOf(text, translation, word) {
  const key = JSON.stringify([text, translation, model().name]);
  const found = attended.get(key) ?? (await ask("v1/attention", { text, translation, model: model().name }));
  if (attended.size === 50) attended.clear();
  attended.set(key, found);
  const heads = found.layers.flat();
  const [rows, columns] = [wordOf(found.target), wordOf(found.source)];
  const sums = Array(Math.max(...columns) + 1).fill(0);
  for (const head of heads) {
    head.forEach((weights, t) => rows[t] === word && weights.forEach((weight, s) => (sums[columns[s]] += weight)));
  }
  const all = heads.length * rows.filter((one) => one === word).length;
  return sums.map((sum) => Math.min(1, sum / all));
}

function pointFromCaret() {
  const typed = by("source").value;
  if (typed !== asked || !shown) return;
  const number = typed.slice(0, by("source").selectionStart).trimStart().split(/\s+/).length - 1;
  const targets = (shown.alignment ?? []).filter(([s]) => s === number).map(([, t]) => t);
  point(targets.length ? [number] : [], targets);
}

// Alternatives: of the sentence, and from a chosen word on.

function offer(title, translations, choose) {
  by("which").textContent = title;
  by("choices").replaceChildren(...translations.map((one) => {
    const item = document.createElement("li");
    const button = item.appendChild(element("button", one.text));
    button.type = "button";
    button.lang = by("words").lang;
    button.addEventListener("click", () => choose(one));
    return item;
  }));
  by("others").hidden = !translations.length;
}

// The sentence that a word belongs to: its number, its source and where that begins (`origin`),
// where its translation starts and ends, and the place of the word.
function sentenceOf(button) {
  let place = 0;
  for (let node = button.previousSibling; node; node = node.previousSibling) place += node.textContent.length;
  let [read, end] = [0, 0];
  for (const [number, [source, target]] of (shown.parts ?? []).entries()) {
    const [origin, start] = [asked.indexOf(source, read), shown.text.indexOf(target, end)];
    if (origin < 0 || start < 0) break;
    [read, end] = [origin + source.length, start + target.length];
    if (place < end) return { number, source, origin, start, end, place };
  }
  return { number: 0, source: asked, origin: 0, start: 0, end: shown.text.length, place };
}

// A translation in which another translation of a sentence takes the place of the first.
function withSentence(whole, { number, origin, start, end }, one) {
  if (start === 0 && end === whole.text.length) return one;
  const [first, after] = [wordAt(whole.text, start), count(whole.text.slice(0, end))];
  const longer = count(one.text) - (after - first);
  const others = whole.alignment.filter(([, t]) => t < first || t >= after);
  const own = one.alignment.map(([s, t]) => [s + wordAt(asked, origin), t + first]);
  const words = ({ text, words }) => text.split(/\s+/).filter(Boolean).map((_, n) => words[n]); // if known
  return {
    ...whole,
    text: whole.text.slice(0, start) + one.text + whole.text.slice(end),
    alignment: [...others.map(([s, t]) => [s, t < first ? t : t + longer]), ...own],
    words: words(whole).toSpliced(first, after - first, ...words(one)),
    parts: whole.parts.toSpliced(number, 1, ...one.parts),
  };
}

async function othersFrom(button) {
  if (isWaiting()) return; // the request would end the translation's
  const whole = shown;
  const sentence = sentenceOf(button);
  const { source, start, end, place } = sentence;
  const prefix = whole.text.slice(start, place).trimEnd();
  const [word] = button.textContent.match(/[\p{L}\p{N}-]+/u) ?? [];
  // The word itself shall not come again; a search cannot ban what its prefix has.
  const banned = word && !prefix.toLowerCase().includes(word.toLowerCase()) ? [word] : [];
  tell(say("seeking"));
  const found = await answered(request(source, { prefix, banned, decode: { n_best: 5 } }));
  if (!found) return;
  const [best] = found.translations;
  const several = [best, ...best.alternatives].filter((one) => one.text !== whole.text.slice(start, end));
  offer(say("from", button.textContent), several, (one) => show(withSentence(whole, sentence, one), asked));
  if (!several.length) tell(say("none"));
  by("choices").querySelector("button")?.focus();
}

function moveAmongWords(event) {
  const buttons = [...by("words").querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const next = buttons[{ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key]];
  if (!next) return;
  event.preventDefault();
  document.activeElement.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function label() {
  speak();
  const names = new Intl.DisplayNames([tongue()], { type: "language" });
  by("from").textContent = names.of(model().source);
  by("into").textContent = names.of(model().target);
  by("words").setAttribute("aria-label", say("words"));
  by("source").lang = model().source;
  by("words").lang = by("spoken").lang = model().target;
}

function copy() {
  const field = document.body.appendChild(element("textarea", shown.text));
  field.select();
  if (document.execCommand("copy")) tell(say("copied")); // over plain HTTP there is no other way
  field.remove();
  by("copy").focus();
}

function start() {
  // Before any answer is waited for, since what is typed meanwhile must stay.
  by("source").value ||= session.getItem("source") ?? "";
  by("key").value = session.getItem("key") ?? "";
  label();
  by("language").addEventListener("click", () => (speak(true), label()));
  by("key").addEventListener("change", () => {
    session.setItem("key", by("key").value);
    connect().then(translate);
  });
  for (const id of ["source", "terms"]) {
    by(id).addEventListener("input", () => {
      wait(true);
      later(PAUSE);
      point([]);
    });
  }
  by("source").addEventListener("scroll", () => (by("mirror").scrollTop = by("source").scrollTop));
  for (const event of ["keyup", "click"]) by("source").addEventListener(event, pointFromCaret);
  for (const event of ["mouseover", "focusin"]) by("words").addEventListener(event, pointFrom);
  by("words").addEventListener("mouseleave", () => point([]));
  by("words").addEventListener("keydown", moveAmongWords);
  by("words").addEventListener("click", (event) => {
    if (event.target.dataset.number) othersFrom(event.target);
  });
  by("copy").addEventListener("click", copy);
  by("model").addEventListener("change", () => (label(), translate()));
  translate();
}

// Ask for the limits and models; whether they are known now.
async function connect() {
  const settings = await answered(ask("frontend/settings"));
  if (!settings) return false;
  by("keyed").hidden = !settings.keyRequired;
  by("source").maxLength = settings.charLimit;
  models = [{ source: settings.language.source.code, target: settings.language.target.code }];
  label();
  const found = await answered(ask("v1/models"));
  if (!found) return false;
  models = found;
  const options = models.map((one) => element("option", `${one.name} (${one.source} → ${one.target})`));
  by("model").replaceChildren(...options);
  by("pair").hidden = models.length < 2;
  label();
  return true;
}

start();
