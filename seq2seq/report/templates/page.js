"use strict";

// Sentences side by side: the order is the reader's.
for (const part of document.querySelectorAll(".sortable")) {
  const select = part.querySelector("select"), body = part.querySelector("tbody");
  select.addEventListener("change", () => {
    const sign = select.value.startsWith("-") ? -1 : 1, key = select.value.replace("-", "");
    body.append(...[...body.rows].sort((a, b) => sign * (a.dataset[key] - b.dataset[key])));
  });
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
  const { sentences, layers, heads, aligns } = JSON.parse(figure.querySelector("script").textContent);
  const select = figure.querySelector("select"), buttons = figure.querySelector(".heads");
  const table = figure.querySelector(".map"), output = figure.querySelector("output");
  const columns = heads > 1 ? [null, ...Array(heads).keys()] : [0];  // null: the mean of the heads
  const aligned = heads > 1 ? aligns[1] : 0;
  let layer = aligns[0], head = aligned, sentence = null;
  const name = (l, h) => `layer ${l}, ${h === null ? "mean of heads" : `head ${h}`}`;

  for (const one of sentences) {
    one.weights = Uint8Array.from(atob(one.weights), (c) => c.charCodeAt(0));
    select.append(cell("option", one.text));
  }

  // The weight of target token t on source token s, from 0 to 1.
  function weight(l, h, t, s) {
    const T = sentence.target.length, S = sentence.source.length;
    if (h !== null) return sentence.weights[((l * heads + h) * T + t) * S + s] / 255;
    return columns.slice(1).reduce((sum, k) => sum + weight(l, k, t, s), 0) / heads;
  }

  function thumbnail(canvas, l, h) {
    canvas.width = sentence.source.length;
    canvas.height = sentence.target.length;
    const context = canvas.getContext("2d");
    const heat = getComputedStyle(table).getPropertyValue("--heat").trim().split(" ").join(",");
    for (let t = 0; t < canvas.height; t++) {
      for (let s = 0; s < canvas.width; s++) {
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
    buttons.style.gridTemplateColumns = `repeat(${columns.length + 1}, auto)`;
    const names = columns.map((h) => cell("span", h === null ? "mean" : `head ${h}`));
    buttons.replaceChildren(cell("span"), ...names);
    for (let l = 0; l < layers; l++) {
      buttons.append(cell("span", `layer ${l}`));
      for (const h of columns) {
        const button = cell("button"), canvas = document.createElement("canvas");
        const same = l === aligns[0] && h === aligned;
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
