// A heat map of the attention of one sentence, which stands in the address behind the #.
import { ask, say, speak } from "./common.js";

const by = (id) => document.getElementById(id);
let found = null; // {source, target, layers: [layer][head][target][source]}

const mean = (heads) =>
  heads[0].map((row, t) => row.map((_, s) => heads.reduce((sum, head) => sum + head[t][s], 0) / heads.length));

function options(select, names) {
  const chosen = Math.max(0, select.selectedIndex);
  select.replaceChildren(...names.map((name) => new Option(name)));
  select.selectedIndex = Math.min(chosen, names.length - 1);
}

function cell(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function draw() {
  speak();
  if (!found) return;
  options(by("layer"), found.layers.map((_, number) => number + 1));
  const heads = found.layers[by("layer").selectedIndex];
  options(by("head"), [say("mean"), ...heads.map((_, number) => number + 1)]);
  const chosen = by("head").selectedIndex;
  const weights = chosen ? heads[chosen - 1] : mean(heads);
  const top = cell("tr");
  top.append(cell("td"), ...found.source.map((token) => {
    const head = cell("th");
    head.scope = "col";
    head.append(cell("span", token));
    return head;
  }));
  const rows = found.target.map((token, t) => {
    const row = cell("tr");
    const name = row.appendChild(cell("th", token));
    name.scope = "row";
    weights[t].forEach((weight, s) => {
      const made = row.appendChild(cell("td"));
      made.style.backgroundColor = `color-mix(in srgb, var(--accent) ${Math.round(100 * weight)}%, var(--field))`;
      made.title = `${token} ← ${found.source[s]}: ${Math.round(100 * weight)} %`;
    });
    return row;
  });
  by("map").replaceChildren(cell("thead"), cell("tbody"));
  by("map").tHead.append(top);
  by("map").tBodies[0].append(...rows);
}

async function start() {
  for (const id of ["layer", "head"]) by(id).addEventListener("change", draw);
  by("language").addEventListener("click", () => (speak(true), draw()));
  draw();
  try {
    const [text, translation, model] = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    found = await ask("v1/attention", { text, translation, model });
    draw();
  } catch (error) {
    by("status").textContent = error instanceof SyntaxError ? say("empty") : error.message;
  }
}

start();
