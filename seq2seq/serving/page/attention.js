// A heat map of the attention of one sentence, which stands in the address behind the #.
import { ask, by, element, say, speak } from "./common.js";

let found = null; // {source, target, layers: [layer][head][target][source]}

const mean = (heads) =>
  heads[0].map((row, t) => row.map((_, s) => heads.reduce((sum, head) => sum + head[t][s], 0) / heads.length));

function options(select, names) {
  const chosen = Math.max(0, select.selectedIndex);
  select.replaceChildren(...names.map((name) => new Option(name)));
  select.selectedIndex = Math.min(chosen, names.length - 1);
}

function draw() {
  speak();
  if (!found) return;
  options(by("layer"), found.layers.map((_, number) => number + 1));
  const heads = found.layers[by("layer").selectedIndex];
  options(by("head"), [say("mean"), ...heads.map((_, number) => number + 1)]);
  const chosen = by("head").selectedIndex;
  const weights = chosen ? heads[chosen - 1] : mean(heads);
  const top = element("tr");
  top.append(element("td"), ...found.source.map((token) => {
    const head = element("th");
    head.scope = "col";
    head.append(element("span", token));
    return head;
  }));
  const rows = found.target.map((token, t) => {
    const row = element("tr");
    const name = row.appendChild(element("th", token));
    name.scope = "row";
    weights[t].forEach((weight, s) => {
      const made = row.appendChild(element("td"));
      const share = Math.round(100 * weight);
      made.style.backgroundColor = `color-mix(in srgb, var(--accent) ${share}%, var(--field))`;
      made.title = `${token} ← ${found.source[s]}: ${share} %`;
      made.appendChild(element("span", `${share} %`)).className = "unseen";
    });
    return row;
  });
  by("map").replaceChildren(element("thead"), element("tbody"));
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
  } catch (error) { // of another kind than the server's if the address has no sentence
    by("status").textContent = error.name === "Error" ? error.message : say("empty");
  }
  draw();
}

start();
