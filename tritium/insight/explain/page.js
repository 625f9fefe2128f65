"use strict";
(() => {
  const data = JSON.parse(document.getElementById("facts").textContent);
  const $ = (id) => document.getElementById(id);
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const within = (runs, cell) => (runs || []).some(([a, b]) => a <= cell && cell <= b);
  const pidText = (p) => "(" + p.join(", ") + ")";

  // --- theme -------------------------------------------------------------------------------------------------------
  $("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

  // --- launch map --------------------------------------------------------------------------------------------------
  const programs = data.programs, tensors = data.tensors;
  const state = { program: null, locked: false, tensor: null, cell: null, step: null, steps: null };

  const counts = tensors.map((t) => {
    const size = t.cells[0] * t.cells[1];
    const loads = new Uint16Array(size), stores = new Uint16Array(size);
    for (const p of programs) {
      for (const [a, b] of p.l[t.name] || []) for (let c = a; c <= b; c++) loads[c]++;
      for (const [a, b] of p.s[t.name] || []) for (let c = a; c <= b; c++) stores[c]++;
    }
    return { loads, stores };
  });

  // The grid as it is where all programs were run, else a list of those that were.
  const wide = () => {
    if (!data.complete) return Math.min(16, programs.length);
    const flat = data.grid[1] * data.grid[2] === 1;
    return flat ? Math.min(data.grid[0], 32) : data.grid[0];
  };
  const columns = wide(), rows = Math.ceil(programs.length / columns);
  const box = Math.max(4, Math.min(28, Math.floor(400 / columns), Math.floor(420 / rows)));
  const gridCanvas = $("grid");
  gridCanvas.width = columns * box + 1;
  gridCanvas.height = rows * box + 1;

  const scaleOf = (t) => Math.max(1, Math.min(14, Math.floor(430 / t.cells[1]), Math.floor(330 / t.cells[0])));
  tensors.forEach((t, n) => {
    const canvas = $("tensor" + n), s = scaleOf(t);
    canvas.width = t.cells[1] * s + 1;
    canvas.height = t.cells[0] * s + 1;
  });

  function drawGrid() {
    const g = gridCanvas.getContext("2d");
    g.clearRect(0, 0, gridCanvas.width, gridCanvas.height);
    const t = state.tensor === null ? null : tensors[state.tensor];
    programs.forEach((p, k) => {
      const x = (k % columns) * box, y = Math.floor(k / columns) * box;
      g.fillStyle = color("touch");
      if (t && state.cell !== null) {
        const l = within(p.l[t.name], state.cell), s = within(p.s[t.name], state.cell);
        g.fillStyle = color(l && s ? "both" : l ? "load" : s ? "store" : "panel");
      }
      g.fillRect(x + 1, y + 1, box - 1, box - 1);
      if (k === state.program) {
        g.strokeStyle = color("ink"); g.lineWidth = 2;
        g.strokeRect(x + 1.5, y + 1.5, box - 2, box - 2);
      }
    });
  }

  function drawTensor(n) {
    const t = tensors[n], canvas = $("tensor" + n), g = canvas.getContext("2d"), s = scaleOf(t);
    const shown = state.step !== null ? state.steps[state.step] : null;
    const p = state.program === null ? null : programs[state.program];
    const names = ["never", "touch", "shared", "conflict", "load", "store", "both"];
    const shade = Object.fromEntries(names.map((name) => [name, color(name)]));
    g.clearRect(0, 0, canvas.width, canvas.height);
    for (let c = 0; c < t.cells[0] * t.cells[1]; c++) {
      const { loads, stores } = counts[n];
      let name = loads[c] + stores[c] === 0 ? "never" : loads[c] > 1 ? "shared" : "touch";
      if (stores[c] > 1 && t.twice) name = "conflict";
      if (shown) {
        if (shown.t === t.name && within(shown.r, c)) name = shown.k === "load" ? "load" : "store";
      } else if (p) {
        const l = within(p.l[t.name], c), st = within(p.s[t.name], c);
        if (l || st) name = l && st ? "both" : l ? "load" : "store";
      }
      const x = (c % t.cells[1]) * s, y = Math.floor(c / t.cells[1]) * s;
      g.fillStyle = shade[name];
      g.fillRect(x + (s > 3 ? 1 : 0), y + (s > 3 ? 1 : 0), s > 3 ? s - 1 : s, s > 3 ? s - 1 : s);
    }
    if (state.tensor === n && state.cell !== null) {
      g.strokeStyle = color("ink"); g.lineWidth = 2;
      g.strokeRect((state.cell % t.cells[1]) * s, Math.floor(state.cell / t.cells[1]) * s, s + 1, s + 1);
    }
  }

  function draw() { drawGrid(); tensors.forEach((_, n) => drawTensor(n)); }

  const cellsText = (runs) => (runs || []).reduce((sum, [a, b]) => sum + b - a + 1, 0);
  function sayProgram(k) {
    const p = programs[k], parts = [];
    for (const t of tensors) {
      const l = cellsText(p.l[t.name]), s = cellsText(p.s[t.name]);
      const what = t.cell[0] * t.cell[1] === 1 ? "elements" : "cells of " + t.cell.join("x") + " elements";
      if (l) parts.push("loads " + l + " " + what + " of " + t.name);
      if (s) parts.push("stores " + s + " " + what + " of " + t.name);
    }
    $("said").textContent = "program " + pidText(p.pid) + " " + (parts.join(", ") || "touches nothing");
  }
  function sayCell(n, c) {
    const t = tensors[n], row = Math.floor(c / t.cells[1]) * t.cell[0], col = (c % t.cells[1]) * t.cell[1];
    const first = row * t.pitch + col;
    const where = t.cell[0] * t.cell[1] === 1 ? "element " + first
      : "elements from " + first + " (" + t.cell.join(" x ") + ")";
    const who = (key) => programs.filter((p) => within(p[key][t.name], c)).map((p) => pidText(p.pid));
    const list = (all) => all.slice(0, 6).join(" ") + (all.length > 6 ? " and " + (all.length - 6) + " more" : "");
    const l = who("l"), s = who("s");
    $("said").textContent = t.name + ", " + where + ": " +
      ([l.length ? "loaded by " + l.length + " of the programs run: " + list(l) : "",
        s.length ? "stored by " + s.length + ": " + list(s) : ""].filter(Boolean).join("; ") || "touched by no program");
  }

  function setProgram(k) {
    if (k === null || k < 0 || k >= programs.length) return;
    Object.assign(state, { program: k, tensor: null, cell: null, step: null });
    sayProgram(k); draw();
  }
  function setCell(n, c) {
    const t = tensors[n];
    if (c < 0 || c >= t.cells[0] * t.cells[1]) return;
    Object.assign(state, { tensor: n, cell: c, program: null, step: null });
    sayCell(n, c); draw();
  }
  const at = (event, canvas, size, across) => {
    const r = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - r.left) * canvas.width / r.width / size);
    const y = Math.floor((event.clientY - r.top) * canvas.height / r.height / size);
    return x >= 0 && x < across ? y * across + x : -1;
  };
  const arrows = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 0, ArrowDown: 0 };
  const moved = (key, across) => key === "ArrowUp" ? -across : key === "ArrowDown" ? across : arrows[key];

  gridCanvas.addEventListener("pointermove", (e) => { if (!state.locked) setProgram(at(e, gridCanvas, box, columns)); });
  gridCanvas.addEventListener("click", (e) => {
    state.locked = !state.locked; setProgram(at(e, gridCanvas, box, columns));
  });
  gridCanvas.addEventListener("focus", () => { if (state.program === null) setProgram(0); });
  gridCanvas.addEventListener("keydown", (e) => {
    if (!(e.key in arrows)) return;
    e.preventDefault(); setProgram((state.program ?? 0) + moved(e.key, columns));
  });
  tensors.forEach((t, n) => {
    const canvas = $("tensor" + n), s = scaleOf(t);
    canvas.addEventListener("pointermove", (e) => setCell(n, at(e, canvas, s, t.cells[1])));
    canvas.addEventListener("focus", () => { if (state.tensor !== n) setCell(n, 0); });
    canvas.addEventListener("keydown", (e) => {
      if (!(e.key in arrows)) return;
      e.preventDefault(); setCell(n, (state.cell ?? 0) + moved(e.key, t.cells[1]));
    });
  });

  // --- stepping ----------------------------------------------------------------------------------------------------
  const select = $("stepped"), slider = $("step");
  let timer = null;
  data.steps.forEach((s, k) => select.add(new Option("program " + pidText(s.pid), k)));
  function show(k) {
    state.step = Math.max(0, Math.min(state.steps.length - 1, k));
    state.program = state.tensor = state.cell = null;
    slider.value = state.step;
    const s = state.steps[state.step];
    const loops = s.i.length ? ", iteration " + s.i.join(".") : "";
    const lanes = s.n ? ": " + (s.n - s.m - s.o) + " of " + s.n + " lanes" + (s.o ? ", " + s.o + " out of bounds" : "") : "";
    $("stepsaid").textContent = (state.step + 1) + " of " + state.steps.length + ", line " + s.ln + loops + ": " + s.w + lanes;
    mark("source", s.ln, true); draw();
  }
  function choose() {
    state.steps = data.steps[select.value].steps;
    slider.max = Math.max(0, state.steps.length - 1);
    if (state.steps.length) show(0);
  }
  const stop = () => { clearInterval(timer); timer = null; $("play").textContent = "Play"; };
  if (data.steps.length) {
    select.addEventListener("change", choose);
    slider.addEventListener("input", () => show(+slider.value));
    $("prev").addEventListener("click", () => show((state.step ?? 0) - 1));
    $("next").addEventListener("click", () => show((state.step ?? -1) + 1));
    $("play").addEventListener("click", () => {
      if (timer) return stop();
      $("play").textContent = "Stop";
      timer = setInterval(() => {
        if ((state.step ?? -1) >= state.steps.length - 1) return stop();
        show((state.step ?? -1) + 1);
      }, 350);
    });
    state.steps = data.steps[0].steps;
    slider.max = Math.max(0, state.steps.length - 1);
  }

  // --- listings ----------------------------------------------------------------------------------------------------
  function listing(pre, stage, numbered) {
    const parts = document.createDocumentFragment();
    stage.lines.forEach((text, k) => {
      const line = document.createElement("span");
      line.className = "src";
      const from = stage.source[k];
      if (from) { line.dataset.line = from; line.tabIndex = numbered ? 0 : -1; }
      if (numbered) {
        const no = document.createElement("span");
        no.className = "no"; no.textContent = stage.source[k]; line.append(no);
      }
      line.append(text || " ");
      parts.append(line);
    });
    if (stage.left) parts.append("  ... " + stage.left + " more lines");
    pre.replaceChildren(parts);
  }
  function mark(id, line, scroll) {
    for (const pre of id ? [$(id)] : document.querySelectorAll("#columns pre")) {
      let first = null;
      for (const span of pre.querySelectorAll(".src")) {
        const on = +span.dataset.line === line && line > 0;
        span.classList.toggle("on", on);
        if (on && !first) first = span;
      }
      if (scroll && first) pre.scrollTop = first.offsetTop - pre.offsetTop - pre.clientHeight / 3;
    }
  }
  listing($("source"), data.stages[0], true);

  const shown = new Set(data.stages.slice(0, 1).concat(data.stages.slice(1).slice(-1)).map((s) => s.name));
  const middle = data.stages.find((s) => s.name === "ttgir") || data.stages.find((s) => s.name === "ttir");
  if (middle) shown.add(middle.name);
  function showStages() {
    const parts = data.stages.filter((s) => shown.has(s.name)).map((s) => {
      const div = document.createElement("div"), h = document.createElement("h3"), pre = document.createElement("pre");
      h.textContent = s.name; pre.className = "listing"; pre.tabIndex = 0; pre.setAttribute("aria-label", s.name);
      listing(pre, s, s.name === "python");
      div.append(h, pre);
      return div;
    });
    $("columns").replaceChildren(...parts);
  }
  data.stages.forEach((s) => {
    const label = document.createElement("label"), input = document.createElement("input");
    input.type = "checkbox"; input.checked = shown.has(s.name); input.id = "stage-" + s.name;
    input.addEventListener("change", () => { shown[input.checked ? "add" : "delete"](s.name); showStages(); });
    label.append(input, " " + s.name + " ");
    $("pick").append(label);
  });
  showStages();
  const select_line = (e) => {
    const span = e.target.closest(".src");
    if (span && span.dataset.line) mark(null, +span.dataset.line, e.type !== "pointerover");
  };
  for (const type of ["pointerover", "click"]) $("columns").addEventListener(type, select_line);
  $("columns").addEventListener("keydown", (e) => {
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); select_line(e); }
  });
  for (const link of document.querySelectorAll("a[data-line]")) link.addEventListener("click", () => {
    mark("source", +link.dataset.line, true); mark(null, +link.dataset.line, true);
  });

  setProgram(Math.floor(programs.length / 2));
  draw();
  document.documentElement.dataset.ready = "yes";
})();
