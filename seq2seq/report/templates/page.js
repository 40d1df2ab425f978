"use strict";

function dataOf(figure) {
  return JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
}

// Sentences side by side: the order is the reader's.
for (const part of document.querySelectorAll(".sortable")) {
  const select = part.querySelector("select"), body = part.querySelector("tbody");
  const sort = () => {
    const falling = select.value.startsWith("-"), key = select.value.replace("-", "");
    const rows = [...body.rows];
    rows.sort((a, b) => (falling ? -1 : 1) * (a.dataset[key] - b.dataset[key]));
    body.append(...rows);
  };
  select.addEventListener("change", sort);
}

// Samples: one validation at a time, or all.
for (const part of document.querySelectorAll(".samples")) {
  const [slider, all] = part.querySelectorAll("input"), output = part.querySelector("output");
  const labels = slider.dataset.labels.split("|");
  const show = () => {
    output.textContent = labels[slider.value];
    slider.setAttribute("aria-valuetext", "step " + labels[slider.value]);
    part.classList.toggle("all", all.checked);
    for (const element of part.querySelectorAll("[data-at]")) {
      const listed = all.checked && element.tagName === "DD";
      element.hidden = !listed && element.dataset.at !== slider.value;
    }
  };
  slider.addEventListener("input", show);
  all.addEventListener("change", show);
  show();
}

// Attention: small pictures of all heads to choose from, one of them large.
for (const figure of document.querySelectorAll(".attention")) {
  const { sentences, layers, heads, aligns } = dataOf(figure);
  const select = figure.querySelector("select"), buttons = figure.querySelector(".heads");
  const table = figure.querySelector(".map"), output = figure.querySelector("output");
  const columns = heads > 1 ? heads + 1 : 1;  // the mean stands first
  let layer = aligns[0], head = heads > 1 ? aligns[1] : 0, sentence = null;
  const name = (l, h) => `layer ${l}, ${h === null ? "mean of heads" : `head ${h}`}`;

  for (const one of sentences) {
    one.weights = Uint8Array.from(atob(one.weights), (c) => c.charCodeAt(0));
    const option = document.createElement("option");
    option.textContent = one.text;
    select.append(option);
  }

  // The weight of target token t on source token s, from 0 to 1.
  function weight(l, h, t, s) {
    const T = sentence.target.length, S = sentence.source.length;
    const of = (k) => sentence.weights[((l * heads + k) * T + t) * S + s];
    if (h !== null) return of(h) / 255;
    let sum = 0;
    for (let k = 0; k < heads; k++) sum += of(k);
    return sum / heads / 255;
  }

  function thumbnail(canvas, l, h) {
    const T = sentence.target.length, S = sentence.source.length;
    canvas.width = S;
    canvas.height = T;
    const context = canvas.getContext("2d");
    const heat = getComputedStyle(table).getPropertyValue("--heat").trim().split(" ").join(",");
    for (let t = 0; t < T; t++) {
      for (let s = 0; s < S; s++) {
        context.fillStyle = `rgba(${heat},${weight(l, h, t, s)})`;
        context.fillRect(s, t, 1, 1);
      }
    }
  }

  function read(t) {
    const order = sentence.source.map((token, s) => [weight(layer, head, t, s), token]);
    order.sort((a, b) => b[0] - a[0]);
    const seen = order.slice(0, 3).filter(([w]) => w >= 0.02);
    const words = seen.map(([w, token]) => `${token} ${Math.round(100 * w)} %`).join(", ");
    output.textContent = `${name(layer, head)}: for “${sentence.target[t]}” it looked at ${words}`;
  }

  function cell(kind, text = "") {
    const element = document.createElement(kind);
    element.textContent = text;
    return element;
  }

  function draw() {
    table.replaceChildren();
    const top = table.createTHead().insertRow();
    top.append(cell("td"), ...sentence.source.map((token) => cell("th", token)));
    top.firstChild.style.background = top.firstChild.style.boxShadow = "none";
    const body = table.createTBody();
    sentence.target.forEach((token, t) => {
      const row = body.insertRow();
      row.tabIndex = 0;
      row.append(cell("th", token));
      sentence.source.forEach((word, s) => {
        const w = weight(layer, head, t, s), square = row.insertCell();
        square.style.setProperty("--w", w.toFixed(3));
        square.title = `${token} → ${word}: ${Math.round(100 * w)} %`;
      });
      const here = () => {
        table.querySelector("tr.here")?.classList.remove("here");
        row.classList.add("here");
        read(t);
      };
      row.addEventListener("pointerenter", here);
      row.addEventListener("focus", here);
    });
    table.setAttribute("aria-label", name(layer, head));
    output.textContent = `${name(layer, head)}. Point at a row.`;
    for (const button of buttons.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", button.dataset.name === name(layer, head));
    }
  }

  function choose() {
    sentence = sentences[select.selectedIndex];
    buttons.replaceChildren();
    buttons.style.gridTemplateColumns = `repeat(${columns + 1}, auto)`;
    buttons.append(cell("span"));
    for (let column = 0; column < columns; column++) {
      buttons.append(cell("span", heads > 1 && !column ? "mean" : `head ${Math.max(0, column - 1)}`));
    }
    for (let l = 0; l < layers; l++) {
      buttons.append(cell("span", `layer ${l}`));
      for (let column = 0; column < columns; column++) {
        const h = heads > 1 ? (column ? column - 1 : null) : 0;
        const button = cell("button"), canvas = document.createElement("canvas");
        const same = l === aligns[0] && (h === aligns[1] || heads === 1);
        button.type = "button";
        button.dataset.name = name(l, h);
        button.title = name(l, h) + (same ? " (alignments are taken from it)" : "");
        button.setAttribute("aria-label", button.title);
        button.classList.toggle("aligns", same);
        button.append(canvas);
        thumbnail(canvas, l, h);
        button.addEventListener("click", () => { layer = l; head = h; draw(); });
        buttons.append(button);
      }
    }
    draw();
  }
  select.addEventListener("change", choose);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", choose);
  choose();
}
