"use strict";
// Shows the details of marks, creates tables and CSV files, and changes the colours. The figures are in the page; each mark, table row and
// CSV line is a row of its data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const make = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  // Numbers.
  const digits = (x, most) => x.toLocaleString("en", { maximumFractionDigits: most });
  const span = (ns) => {
    const units = ["ns", "µs", "ms", "s"];
    let i = 0;
    while (Math.abs(ns) >= 999.5 && i + 1 < units.length) { ns /= 1000; i += 1; }
    return digits(Number(ns.toPrecision(3)), 12) + " " + units[i];
  };
  const exact = (x, unit) => {
    if (x === null || x === undefined) return "–";
    if (typeof x !== "number" || unit === "text") return String(x);
    switch (unit) {
      case "ns": return digits(x, 1) + " ns" + (x >= 1000 ? " (" + span(x) + ")" : "");
      case "share": return digits(x * 100, 4) + " %";
      case "ratio": return "×" + digits(x, 4);
      default: return digits(x, 4);
    }
  };
  const clip = (text, most) => ([...text].length > most ? [...text].slice(0, most - 1).join("") + "…" : text);

  const describe = (figure, row) => {
    const cell = figure.cells[row] === null ? null : data.cells[figure.cells[row]];
    // A cell's label contains its parameters.
    const told = figure.columns.map((c, i) => [c, figure.rows[row][i]])
      .filter(([c, value]) => value !== null && value !== "" && !(cell && cell.label && data.parameters.includes(c.name)));
    return { cell, lines: told.map(([c, value]) => `${c.name.replace(/_/g, " ")}: ${exact(value, c.unit)}`) };
  };

  // The details of a mark that is pointed at or selected with the arrow keys: next to it, within the window.
  const tip = make("div", undefined, { id: "tip", role: "tooltip" });
  tip.hidden = true;
  document.getElementById("main").append(tip);
  let shown = null;
  const hide = () => {
    tip.hidden = true;
    if (shown) shown.classList.remove("on");
    shown = null;
  };
  const show = (figure, mark, x, y) => {
    if (shown !== mark) {
      hide();
      const { cell, lines } = describe(figure, Number(mark.dataset.row));
      tip.replaceChildren();
      if (cell && cell.label) tip.append(make("strong", clip(cell.label, 300)));
      for (const line of lines) tip.append(make("div", clip(line, 300)));
      if (cell && cell.command) tip.append(make("code", cell.command));
      mark.classList.add("on");
      shown = mark;
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = x + 14 + box.width < innerWidth ? x + 14 : x - 14 - box.width;
    tip.style.left = `${Math.max(4, Math.min(right, innerWidth - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - box.height - 4))}px`;
  };

  // The mark at a point, or the nearest one of its chart.
  const NEAR = 24;
  const at = (e) => {
    const mark = e.target.closest("[data-row]");
    if (mark) return mark;
    const chart = e.target.closest("svg.strip, svg.field, .lines");
    if (!chart) return null;
    let [best, least] = [null, NEAR];
    for (const other of chart.querySelectorAll("[data-row]")) {
      const box = other.getBoundingClientRect();
      const [dx, dy] = [Math.max(box.left - e.clientX, 0, e.clientX - box.right), Math.max(box.top - e.clientY, 0, e.clientY - box.bottom)];
      const far = Math.hypot(dx, dy);
      if (far < least) [best, least] = [other, far];
    }
    return best;
  };

  const pick = (section, figure, row) => {
    const { cell, lines } = describe(figure, row);
    const picked = section.querySelector(".picked");
    picked.replaceChildren(make("strong", cell ? cell.label : ""), make("div", lines.join(" · ")));
    if (cell && cell.command) {
      const code = make("code", cell.command);
      const copy = make("button", "Copy the command", { type: "button" });
      copy.addEventListener("click", () => {
        getSelection().selectAllChildren(code);
        if (navigator.clipboard) navigator.clipboard.writeText(cell.command).then(() => { copy.textContent = "Copied"; }, () => {});
      });
      const line = make("div");
      line.append(code, " ", copy);
      picked.append(line);
    }
  };

  // Tables, created when they are opened.
  const FIRST = 1000;
  const table = (figure, box) => {
    const body = make("tbody");
    const fill = (from, to) => {
      for (const row of figure.rows.slice(from, to)) {
        const line = make("tr");
        row.forEach((value, i) => {
          const isNumber = typeof value === "number" && figure.columns[i].unit !== "text";
          line.append(make("td", exact(value, figure.columns[i].unit), isNumber ? { class: "n" } : typeof value === "string" && value.length > 60 ? { class: "wide" } : {}));
        });
        body.append(line);
      }
    };
    const head = make("tr");
    for (const c of figure.columns) head.append(make("th", c.name, { scope: "col", ...(c.unit === "text" ? {} : { class: "n" }) }));
    const top = make("thead");
    top.append(head);
    const whole = make("table");
    whole.append(top, body);
    fill(0, FIRST);
    box.append(whole);
    if (figure.rows.length > FIRST) {
      const more = make("button", `Show all ${digits(figure.rows.length)} rows`, { type: "button" });
      more.addEventListener("click", () => { fill(FIRST); more.remove(); box.focus(); });
      box.append(more);
    }
  };

  const csv = (figure) => {
    const field = (value) => {
      if (value === null || value === undefined) return "";
      const text = String(value);
      return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
    };
    const command = (i) => (figure.cells[i] === null ? null : data.cells[figure.cells[i]].command);
    const lines = [[...figure.columns.map((c) => c.name), "command"], ...figure.rows.map((row, i) => [...row, command(i)])];
    return lines.map((line) => line.map(field).join(",") + "\n").join("");
  };

  for (const section of document.querySelectorAll("[data-figure]")) {
    const figure = data.figures[Number(section.dataset.figure)];
    for (const plot of section.querySelectorAll(".plot")) {
      plot.addEventListener("pointermove", (e) => {
        const mark = at(e);
        mark ? show(figure, mark, e.clientX, e.clientY) : hide();
      });
      plot.addEventListener("pointerleave", hide);
      plot.addEventListener("blur", hide);
      plot.addEventListener("click", (e) => {
        const mark = at(e);
        if (mark) pick(section, figure, Number(mark.dataset.row));
      });
      plot.addEventListener("keydown", (e) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[e.key];
        const marks = [...plot.querySelectorAll("[data-row]")];
        const now = marks.indexOf(shown);
        if (e.key === "Enter" && now >= 0) pick(section, figure, Number(shown.dataset.row));
        if (step === undefined || marks.length === 0) return;
        e.preventDefault();
        const mark = marks[Math.max(0, Math.min(marks.length - 1, now + step))];
        const box = mark.getBoundingClientRect();
        show(figure, mark, box.left + box.width / 2, box.top + box.height / 2);
        plot.setAttribute("aria-describedby", "tip");
      });
    }
    section.querySelector(".csv").addEventListener("click", () => {
      const link = make("a", undefined, { download: `${data.name}-${figure.id}.csv` });
      link.href = URL.createObjectURL(new Blob([csv(figure)], { type: "text/csv" }));
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    const details = section.querySelector(".data");
    details.addEventListener("toggle", () => {
      const box = details.querySelector(".scroll");
      if (details.open && !box.firstChild) table(figure, box);
    });
  }

  // Themes: the system's, until the button selects another.
  let chosen = "system";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => { root.dataset.theme = chosen === "system" ? (dark.matches ? "dark" : "light") : chosen; };
  paint();
  const button = document.getElementById("theme");
  button.addEventListener("click", () => {
    chosen = { system: "light", light: "dark", dark: "system" }[chosen];
    button.textContent = `Colours: ${chosen}`;
    paint();
  });
  dark.addEventListener("change", paint);
  document.getElementById("print").addEventListener("click", () => print());
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });
})();
