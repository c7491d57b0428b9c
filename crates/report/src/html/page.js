"use strict";
// Draws the page's figures from the data that is in it. Every mark, line of a table and line of a CSV is a row of that data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const make = (name, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  // Looks: colours that differ for every kind of colour blindness, and with them dashes, markers and patterns, so that no colour is the only
  // sign of anything.
  const COLOURS = {
    light: ["#0b66b0", "#c2410c", "#00795a", "#a2458a", "#7a5c00", "#4b5563", "#5b4fc4", "#b0174f", "#1d7a94", "#6b4f2a"],
    dark: ["#6cb6ff", "#ff9457", "#45d0a5", "#e793cd", "#e3c04f", "#b8c0cc", "#afa5ff", "#ff86a8", "#66d3ea", "#d8b48a"],
  };
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "x", "cross", "triangle-down", "pentagon", "star", "hexagram"];
  const PATTERNS = ["", "/", "x", "-", "\\", "|", ".", "+"];
  const look = (i) => ({
    colour: COLOURS[theme()][i % 10],
    dash: DASHES[i % DASHES.length],
    symbol: SYMBOLS[i % SYMBOLS.length] + (i % 20 < 10 ? "" : "-open"),
    pattern: PATTERNS[i % PATTERNS.length],
  });

  // Themes: the system's until the button says another.
  let chosen = "system";
  let printing = false;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (printing ? "light" : chosen === "system" ? (dark.matches ? "dark" : "light") : chosen);
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // Numbers.
  const digits = (x, most) => x.toLocaleString("en", { maximumFractionDigits: most });
  const significant = (x, n) => (x === 0 ? "0" : digits(Number(x.toPrecision(n)), 12));
  const scaled = (x, units, n) => {
    let i = 0;
    while (Math.abs(x) >= 999.5 && i + 1 < units.length) { x /= 1000; i += 1; }
    return significant(x, n) + (units[i] ? " " + units[i] : "");
  };
  const short = (x, unit, n = 3) => {
    if (x === null || x === undefined) return "–";
    if (typeof x !== "number") return String(x);
    if (x === 0 && unit === "ns") return "0";
    switch (unit) {
      case "ns": return scaled(x, ["ns", "µs", "ms", "s"], n);
      case "share": return significant(x * 100, n) + " %";
      case "ratio": return "×" + significant(x, n);
      case "per_second": return scaled(x, ["", "k", "M", "G"], n);
      case "number": return Math.abs(x) >= 10000 ? scaled(x, ["", "k", "M", "G"], n) : significant(x, n);
      default: return String(x);
    }
  };
  const exact = (x, unit) => {
    if (x === null || x === undefined) return "–";
    if (typeof x !== "number" || unit === "text") return String(x);
    switch (unit) {
      case "ns": return digits(x, 1) + " ns" + (x >= 1000 ? " (" + short(x, unit) + ")" : "");
      case "share": return digits(x * 100, 4) + " %";
      case "ratio": return "×" + digits(x, 4);
      default: return digits(x, 4);
    }
  };

  // Plotly takes some HTML in its labels: what is text stays text.
  const plain = (text) => String(text).replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c])
    .replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd").replace(/\$/g, "&#36;");
  const clip = (text, most) => ([...text].length > most ? [...text].slice(0, most - 1).join("") + "…" : text);
  const describe = (figure, row) => {
    const cell = figure.cells[row] === null ? null : data.cells[figure.cells[row]];
    // A cell's label holds its parameters.
    const told = figure.columns.map((c, i) => [c, figure.rows[row][i]])
      .filter(([c, value]) => value !== null && value !== "" && !(cell && cell.label && data.parameters.includes(c.name)));
    return { cell, lines: told.map(([c, value]) => `${c.name.replace(/_/g, " ")}: ${exact(value, c.unit)}`) };
  };
  // What a mark shows when it is pointed at: beside it, within the window.
  const tip = make("div", undefined, { id: "tip", role: "tooltip" });
  tip.hidden = true;
  document.body.append(tip);
  const hover = (figure, row, event) => {
    const { cell, lines } = describe(figure, row);
    tip.replaceChildren();
    if (cell && cell.label) tip.append(make("strong", clip(cell.label, 300)));
    for (const line of lines) tip.append(make("div", clip(line, 300)));
    if (cell && cell.command) tip.append(make("code", cell.command));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 14 + box.width < innerWidth ? event.clientX + 14 : event.clientX - 14 - box.width;
    tip.style.left = `${Math.max(4, Math.min(right, innerWidth - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 4))}px`;
  };

  // Axes.
  const nice = (lo, hi) => {
    const step0 = (hi - lo) / 5 || 1;
    const power = 10 ** Math.floor(Math.log10(step0));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= step0 * 0.999);
    const ticks = [];
    for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi * (1 + 1e-9) + 1e-12; i += 1) ticks.push(i * step);
    return ticks;
  };
  const decades = (lo, hi) => {
    const span = Math.log10(hi / lo);
    const steps = span > 3 ? [1] : span > 1.2 ? [1, 3] : span > 0.5 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
    const ticks = [];
    for (let p = Math.floor(Math.log10(lo)); p <= Math.ceil(Math.log10(hi)); p += 1) {
      for (const s of steps) { const t = s * 10 ** p; if (t >= lo * 0.999 && t <= hi * 1.001) ticks.push(t); }
    }
    return ticks;
  };
  const base = () => ({
    gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line"), tickcolor: colour("--line"),
    automargin: true, fixedrange: true, title: { font: { size: 12 }, standoff: 6 },
  });
  const named = (axis, width) => {
    const narrow = width < 480;
    const most = narrow ? 30 : 46;
    const every = Math.ceil(axis.ticks.length / 80);
    const ticks = axis.ticks.filter((_, i) => i % every === 0);
    return { ...base(), tickfont: { size: narrow ? 10 : 12 }, tickvals: ticks.map((t) => t[0]), ticktext: ticks.map((t) => plain(clip(t[1], most))), title: { ...base().title, text: plain(axis.title) } };
  };
  const numbers = (axis, lo, hi, log) => {
    const ticks = log ? decades(lo, hi) : nice(lo, hi);
    const texts = (n) => ticks.map((t) => short(Number(t.toPrecision(9)), axis.unit, n));
    // As few digits as tell them apart.
    const text = [3, 4, 5, 6].map(texts).find((all) => new Set(all).size === all.length) || texts(9);
    return {
      ...base(), type: log ? "log" : "linear", range: log ? [Math.log10(lo), Math.log10(hi)] : [lo, hi], tickvals: ticks, ticktext: text.map(plain),
      title: { ...base().title, text: plain(axis.title) + (log && axis.scale === "auto" ? " (log)" : "") },
    };
  };
  const extent = (figure, panels, columns, hidden) => {
    let [lo, hi, least] = [Infinity, -Infinity, Infinity];
    for (const p of panels) for (const s of p.series) {
      if (hidden.has(s.name)) continue;
      for (const r of s.rows) for (const c of columns) {
        const x = c === null ? null : figure.rows[r][c];
        if (typeof x !== "number") continue;
        lo = Math.min(lo, x); hi = Math.max(hi, x);
        if (x > 0) least = Math.min(least, x);
      }
    }
    return { lo, hi, least };
  };
  // From 0, or logarithmic where the largest would press the others together.
  const auto = (axis, { lo, hi, least }) => {
    if (!(hi > 0)) return numbers(axis, 0, 1, false);
    if (lo > 0 && hi / least > 30) return numbers(axis, least / 1.3, hi * 1.3, true);
    return numbers(axis, 0, hi * 1.08, false);
  };

  const HEIGHT = { levels: () => 280, curves: () => 320, points: () => 330, bars: (p) => 76 + 26 * p.y.ticks.length, ratios: (p) => 84 + 22 * p.y.ticks.length };

  const trace = (state, panel, s) => {
    const { figure } = state;
    const l = look(s.look);
    const value = (r, c) => (c === null ? null : figure.rows[r][c]);
    let order = s.rows.map((_, i) => i);
    if (panel.kind === "levels") order.sort((a, b) => s.at[a] - s.at[b]);
    const rows = order.map((i) => s.rows[i]);
    const at = order.map((i) => s.at[i]);
    const common = { name: plain(s.name), showlegend: false, hoverinfo: "none", customdata: rows };
    const error = (column) => ({
      type: "data", symmetric: false, thickness: 1.4, width: 3, color: l.colour,
      array: rows.map((r) => (value(r, panel.hi_column) === null ? 0 : value(r, panel.hi_column) - value(r, column))),
      arrayminus: rows.map((r) => (value(r, panel.lo_column) === null ? 0 : value(r, column) - value(r, panel.lo_column))),
    });
    const marker = { color: l.colour, symbol: l.symbol, size: 9, line: { width: 1, color: colour("--back") } };
    const line = { color: l.colour, dash: l.dash, width: 2 };
    switch (panel.kind) {
      case "levels": {
        // Beside each other, so that intervals don't hide each other.
        const places = panel.x.ticks.map((t) => t[0]);
        const looks = [...new Set(panel.series.map((x) => x.look))].sort((a, b) => a - b);
        const aside = panel.x.title === "" ? 0 : (looks.indexOf(s.look) - (looks.length - 1) / 2) * dodge(panel, places, looks.length);
        return { ...common, type: "scatter", mode: panel.joined ? "lines+markers" : "markers", x: at.map((x) => x + aside), y: rows.map((r) => value(r, panel.y_column)), error_y: error(panel.y_column), marker, line };
      }
      case "curves":
        return { ...common, type: "scatter", mode: "lines", x: rows.map((r) => value(r, panel.x_column)), y: rows.map((r) => value(r, panel.y_column)), line };
      case "points":
        return { ...common, type: "scatter", mode: "markers", x: rows.map((r) => value(r, panel.x_column)), y: rows.map((r) => value(r, panel.y_column)), marker: { ...marker, size: rows.length > 300 ? 5 : 8 } };
      case "ratios":
        return { ...common, type: "scatter", mode: "markers", x: rows.map((r) => value(r, panel.x_column)), y: at, error_x: error(panel.x_column), marker };
      default:
        return {
          ...common, type: "bar", orientation: "h", x: rows.map((r) => value(r, panel.x_column)), y: at, width: 0.72,
          marker: { color: l.colour, line: { width: 0.6, color: colour("--back") }, pattern: { shape: l.pattern, fillmode: "overlay", fgcolor: colour("--back"), fgopacity: 0.55, size: 7, solidity: 0.25 } },
        };
    }
  };

  // How far marks of one place are apart: together they stay within a half of the way to the next place.
  const dodge = (panel, places, n) => {
    const span = Math.max(...places) - Math.min(...places) || 1;
    return panel.joined ? Math.min(0.012, 0.1 / n) * span : Math.min(0.1, 0.5 / n);
  };

  const layout = (state, panel, width) => {
    const { figure } = state;
    const page = figure.pages[state.page];
    const alike = page.panels.filter((p) => p.kind === panel.kind && p.y_column === panel.y_column && p.x_column === panel.x_column);
    const of = (columns) => extent(figure, alike, columns, state.hidden);
    const shown = {
      width, height: HEIGHT[panel.kind](panel), margin: { l: 56, r: 16, t: 10, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--text"), size: 12, family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif" }, showlegend: false, dragmode: false, hovermode: "closest",
    };
    switch (panel.kind) {
      case "levels": {
        const places = panel.x.ticks.map((t) => t[0]);
        const span = Math.max(...places) - Math.min(...places) || 1;
        const pad = panel.joined ? span * 0.08 : Math.max(0.4, span * 0.04);
        const x = named(panel.x, width);
        shown.xaxis = { ...x, range: [Math.min(...places) - pad, Math.max(...places) + pad], zeroline: false };
        shown.yaxis = auto(panel.y, of([panel.y_column, panel.lo_column, panel.hi_column]));
        break;
      }
      case "curves": {
        const e = of([panel.x_column]);
        const slower = extent(figure, alike, [panel.y_column], state.hidden);
        const least = slower.least < 1 ? 10 ** Math.floor(Math.log10(slower.least * 1.0001)) : 0.01;
        shown.xaxis = numbers(panel.x, e.least / 1.15, e.hi * 1.15, true);
        shown.yaxis = numbers(panel.y, least * 0.9, 1.1, true);
        shown.yaxis.tickvals = [1, 0.1, 0.01, 0.001, 0.0001];
        shown.yaxis.ticktext = ["all", "10 % (p90)", "1 % (p99)", "0.1 % (p99.9)", "0.01 % (p99.99)"];
        break;
      }
      case "points": {
        const [x, y] = [of([panel.x_column]), of([panel.y_column])];
        const room = (e) => (e.hi - e.lo || Math.abs(e.hi) || 1) * 0.06;
        shown.xaxis = { ...numbers(panel.x, Math.max(x.lo - room(x), x.lo >= 0 ? -room(x) : -Infinity), x.hi + room(x), false), zeroline: false };
        shown.yaxis = { ...numbers(panel.y, y.lo - room(y), y.hi + room(y), false), zeroline: false };
        if (panel.y.unit === "ratio") shown.shapes = [rule("h")];
        break;
      }
      case "ratios": {
        const e = extent(figure, [panel], [panel.x_column, panel.lo_column, panel.hi_column], state.hidden);
        const [lo, hi] = [Math.min(Math.max(e.least, 0.01), 0.95), Math.max(Math.min(e.hi, 100), 1.05)];
        shown.xaxis = numbers(panel.x, lo / 1.05, hi * 1.05, true);
        shown.yaxis = { ...named(panel.y, width), range: [panel.y.ticks.length - 0.4, -0.6], zeroline: false };
        shown.shapes = [rule("v")];
        break;
      }
      default: {
        shown.barmode = "stack";
        const sums = new Map();
        for (const p of alike) for (const s of p.series) if (!state.hidden.has(s.name)) s.rows.forEach((r, i) => {
          const key = `${alike.indexOf(p)} ${s.at[i]}`;
          sums.set(key, (sums.get(key) || 0) + figure.rows[r][p.x_column]);
        });
        const most = Math.max(0, ...sums.values());
        shown.xaxis = numbers(panel.x, 0, panel.x.unit === "share" ? 1 : most * 1.02 || 1, false);
        shown.yaxis = { ...named(panel.y, width), range: [panel.y.ticks.length - 0.4, -0.6], showgrid: false, zeroline: false };
      }
    }
    // Zooming is for those who don't scroll with what they point with.
    if ((panel.kind === "curves" || panel.kind === "points") && matchMedia("(pointer: fine)").matches) {
      shown.dragmode = "zoom";
      shown.xaxis.fixedrange = shown.yaxis.fixedrange = false;
    }
    return shown;
  };
  const rule = (way) => ({
    type: "line", layer: "below", line: { color: colour("--weak"), width: 1.5, dash: "dot" },
    ...(way === "v" ? { x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1 } : { y0: 1, y1: 1, xref: "paper", x0: 0, x1: 1 }),
  });

  // Figures.
  const states = [...document.querySelectorAll("[data-figure]")].map((section) => ({
    section, figure: data.figures[Number(section.dataset.figure)], page: 0, hidden: new Set(), plots: [],
  }));
  const inPrint = 330;

  const draw = (state, plot) => {
    const width = printing ? (state.plots.length > 1 ? inPrint : 2 * inPrint) : Math.floor(plot.node.parentNode.clientWidth);
    const traces = plot.panel.series.filter((s) => !state.hidden.has(s.name)).map((s) => trace(state, plot.panel, s));
    Plotly.react(plot.node, traces, layout(state, plot.panel, width), { displayModeBar: false, responsive: false, doubleClick: "reset" });
    if (!plot.drawn) {
      plot.node.on("plotly_click", (e) => pick(state, e.points[0].customdata));
      plot.node.on("plotly_hover", (e) => hover(state.figure, e.points[0].customdata, e.event));
      plot.node.on("plotly_unhover", () => { tip.hidden = true; });
    }
    plot.drawn = true;
  };
  const redraw = (all) => {
    for (const state of states) for (const plot of state.plots) if (all || plot.drawn) draw(state, plot);
  };

  const pick = (state, row) => {
    const { cell, lines } = describe(state.figure, row);
    const picked = state.section.querySelector(".picked");
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

  const swatch = (kind, i) => {
    const l = look(i);
    const svg = (name, attributes) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      return node;
    };
    const box = svg("svg", { width: 30, height: 14, "aria-hidden": "true" });
    if (kind === "bars") {
      box.append(svg("rect", { x: 1, y: 1, width: 28, height: 12, fill: l.colour }));
      const mark = { "/": "M3 13 9 1M12 13 18 1M21 13 27 1", "\\": "M3 1 9 13M12 1 18 13M21 1 27 13", x: "M4 13 12 1M4 1 12 13M18 13 26 1M18 1 26 13", "-": "M1 5H29M1 10H29", "|": "M7 1V13M15 1V13M23 1V13", "+": "M1 7H29M8 1V13M22 1V13", ".": "M6 7h3M14 7h3M22 7h3" }[l.pattern];
      if (mark) box.append(svg("path", { d: mark, stroke: colour("--back"), "stroke-width": 1.6, fill: "none" }));
      return box;
    }
    const dashes = { dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "11 3 2 3" }[l.dash];
    if (kind === "curves" || kind === "levels") box.append(svg("path", { d: "M1 7H29", stroke: l.colour, "stroke-width": 2.2, ...(dashes ? { "stroke-dasharray": dashes } : {}) }));
    if (kind !== "curves") {
      const shape = { circle: "M11 7a4 4 0 1 0 8 0 4 4 0 1 0-8 0", diamond: "M15 2l5 5-5 5-5-5z", square: "M11 3h8v8h-8z", "triangle-up": "M15 2l5 9H10z", "triangle-down": "M15 12l5-9H10z", x: "M11 3l8 8M19 3l-8 8", cross: "M15 2v10M10 7h10" }[l.symbol.replace("-open", "")] || "M15 2l4.8 3.5-1.8 5.6h-6l-1.8-5.6z";
      box.append(svg("path", { d: shape, fill: l.symbol.endsWith("-open") ? "none" : l.colour, stroke: l.colour, "stroke-width": 2 }));
    }
    return box;
  };

  const legend = (state) => {
    const panels = state.figure.pages[state.page].panels;
    const names = new Map();
    for (const p of panels) for (const s of p.series) if (!names.has(s.name)) names.set(s.name, [s.look, p.kind]);
    const list = state.section.querySelector(".legend");
    list.replaceChildren();
    list.hidden = names.size === 1 && names.has("measured");
    for (const [name, [i, kind]] of [...names].sort((a, b) => a[1][0] - b[1][0])) {
      const button = make("button", undefined, { type: "button", "aria-pressed": String(!state.hidden.has(name)) });
      button.append(swatch(kind, i), make("span", name));
      button.addEventListener("click", () => {
        state.hidden.has(name) ? state.hidden.delete(name) : state.hidden.add(name);
        button.setAttribute("aria-pressed", String(!state.hidden.has(name)));
        for (const plot of state.plots) if (plot.drawn) draw(state, plot);
      });
      const item = make("li");
      item.append(button);
      list.append(item);
    }
  };

  const show = (state) => {
    const panels = state.figure.pages[state.page].panels;
    const box = state.section.querySelector(".panels");
    for (const plot of state.plots) { seen.unobserve(plot.node); if (plot.drawn) Plotly.purge(plot.node); }
    box.replaceChildren();
    box.classList.toggle("single", panels.length === 1);
    const title = state.section.querySelector("h2").textContent.trim();
    state.plots = panels.map((panel) => {
      const frame = make("div", undefined, { class: "panel" });
      if (panel.title) frame.append(make("h3", panel.title));
      const marks = panel.series.reduce((n, s) => n + s.rows.length, 0);
      const of = panel.series.map((s) => s.name).join(", ");
      const words = `${title}${panel.title ? ", " + panel.title : ""}: ${marks} marks; ${of}. The table below has the numbers.`;
      const node = make("div", undefined, { class: "plot", role: "img", "aria-label": words });
      node.style.minHeight = HEIGHT[panel.kind](panel) + "px";
      frame.append(node);
      box.append(frame);
      return { panel, node, drawn: false };
    });
    for (const plot of state.plots) seen.observe(plot.node);
    legend(state);
  };

  // A chart is drawn when it is about to be looked at.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) {
      for (const state of states) for (const plot of state.plots) if (plot.node === entry.target && !plot.drawn) draw(state, plot);
      seen.unobserve(entry.target);
    }
  }, { rootMargin: "800px" });

  // Tables, made when they are opened.
  const FIRST = 1000;
  const table = (state, box) => {
    const { figure } = state;
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

  for (const state of states) {
    const { section, figure } = state;
    const choice = section.querySelector("select");
    if (choice) choice.addEventListener("change", () => { state.page = Number(choice.value); show(state); });
    section.querySelector(".csv").addEventListener("click", () => {
      const link = make("a", undefined, { download: `${data.name}-${figure.id}.csv` });
      link.href = URL.createObjectURL(new Blob([csv(figure)], { type: "text/csv" }));
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    const details = section.querySelector("details");
    details.addEventListener("toggle", () => {
      const box = details.querySelector(".scroll");
      if (details.open && !box.firstChild) table(state, box);
    });
  }

  const paint = () => {
    root.dataset.theme = theme();
    for (const state of states) legend(state);
    redraw(false);
  };
  root.dataset.theme = theme();
  for (const state of states) show(state);
  const button = document.getElementById("theme");
  button.addEventListener("click", () => {
    chosen = { system: "light", light: "dark", dark: "system" }[chosen];
    button.textContent = `Colours: ${chosen}`;
    paint();
  });
  dark.addEventListener("change", paint);
  document.getElementById("print").addEventListener("click", () => print());
  const setPrinting = (on) => {
    printing = on;
    root.dataset.theme = theme();
    redraw(on);
  };
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  addEventListener("keydown", (e) => { if (e.key === "Escape") tip.hidden = true; });
  let waiting = 0;
  let width = innerWidth;
  addEventListener("resize", () => {
    // A phone's bars that come and go change the height alone.
    if (innerWidth === width || printing) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => redraw(false), 150);
  });
})();
