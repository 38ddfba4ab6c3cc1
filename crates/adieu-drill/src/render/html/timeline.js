// Draws one stop: every request a bar in its line, the marks across, the target's own account above.
// All text from the report goes to fillText and textContent, which make nothing but text of it.
(() => {
  "use strict";
  const chart = JSON.parse(document.getElementById("chart").textContent);
  if (chart.stops.length === 0) return;
  const byId = id => document.getElementById(id);
  const canvas = byId("canvas"), said = byId("said"), choice = byId("stop");
  const paper = canvas.getContext("2d");
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;

  const ROW = 16, FLIGHT = 64, LOSSES = 12, AXIS = 22, LEFT = 12, RIGHT = 12, LEAST = 20;
  let stop, view, chosen = -1, colours = {}, layout, waiting = false;

  // Microseconds as a person says them.
  const words = us => {
    const size = Math.abs(us), sign = us < 0 ? "−" : "";
    if (size === 0) return "0 ms";
    if (size < 1e3) return `${sign}${Math.round(size)} µs`;
    if (size < 9950) return `${sign}${(size / 1e3).toFixed(1)} ms`;
    if (size < 999500) return `${sign}${Math.round(size / 1e3)} ms`;
    if (size < 99.95e6) return `${sign}${(size / 1e6).toFixed(size < 9.995e6 ? 2 : 1)} s`;
    return `${sign}${Math.floor(size / 60e6)} min ${Math.floor(size / 1e6) % 60} s`;
  };
  const number = value => value.toLocaleString("en");

  // --- a stop and what is derived of it, once -------------------------------------------------------------------

  function prepare(at) {
    const found = chart.stops[at];
    if (found.ready) return found;
    const count = found.start.length;
    let first = 0, last = 1, lanes = 0;
    for (let i = 0; i < count; i++) {
      first = Math.min(first, found.start[i]);
      last = Math.max(last, found.end[i]);
      lanes = Math.max(lanes, found.lane[i] + 1);
    }
    for (const mark of found.marks) { first = Math.min(first, mark.at); last = Math.max(last, mark.at); }
    const margin = (last - first) * 0.015 + LEAST;
    // The bars of each line, in order of time; no two of them overlap.
    const lines = Array.from({ length: lanes }, () => []);
    for (let i = 0; i < count; i++) lines[found.lane[i]].push(i);
    // The in-flight count after each change.
    const changes = new Float64Array(count * 2);
    for (let i = 0; i < count; i++) { changes[2 * i] = found.start[i]; changes[2 * i + 1] = found.end[i]; }
    const order = Array.from({ length: count * 2 }, (_, i) => i);
    // At one instant the ended leave first.
    order.sort((a, b) => changes[a] - changes[b] || (b & 1) - (a & 1));
    const when = new Float64Array(order.length), flight = new Int32Array(order.length);
    let now = 0, peak = 0;
    order.forEach((change, i) => {
      now += change & 1 ? -1 : 1;
      peak = Math.max(peak, now);
      when[i] = changes[change];
      flight[i] = now;
    });
    return Object.assign(found, { ready: true, from: first - margin, to: last + margin, lines, when, flight, peak });
  }

  // The first place in a sorted list whose value is not below.
  function place(values, value, key = i => values[i], length = values.length) {
    let low = 0, high = length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (key(middle) < value) low = middle + 1; else high = middle;
    }
    return low;
  }

  // --- drawing ----------------------------------------------------------------------------------------------------

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "quiet", "line", "sheet", "focus", "flight", "mark", "own", "answered", "retry", "refused", "unsent", "failed", "lost"])
      colours[name] = style.getPropertyValue("--" + name).trim();
  }

  function measure() {
    const width = Math.max(canvas.clientWidth, 280);
    const own = stop.own ? ROW + 8 : 0;
    const lanes = Math.max(stop.lines.length, 1);
    const height = Math.min(Math.max(7 * lanes, 120), 520);
    const top = stop.marks.length * ROW + 8;
    layout = {
      width, own, lane: height / lanes, lanesHeight: height,
      ownTop: top, flightTop: top + own, lossesTop: top + own + FLIGHT, lanesTop: top + own + FLIGHT + LOSSES,
      bottom: top + own + FLIGHT + LOSSES + height,
    };
    layout.height = layout.bottom + AXIS;
    const sharp = Math.min(window.devicePixelRatio || 1, 3);
    canvas.style.height = layout.height + "px";
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(layout.height * sharp);
    paper.setTransform(sharp, 0, 0, sharp, 0, 0);
  }

  const scale = () => (layout.width - LEFT - RIGHT) / (view.to - view.from);
  const x = us => LEFT + (us - view.from) * scale();
  const time = px => view.from + (px - LEFT) / scale();

  function draw() {
    waiting = false;
    const { width, height, lane, lanesTop, bottom } = layout;
    paper.clearRect(0, 0, width, height);
    paper.font = "12px system-ui, sans-serif";
    paper.textBaseline = "middle";
    drawAxis();
    drawFlight();
    paper.save();
    paper.beginPath();
    paper.rect(LEFT, 0, width - LEFT - RIGHT, height);
    paper.clip();
    if (stop.own) drawOwn();
    // One path a colour: ten thousand fills cost more than ten thousand rectangles.
    const paths = new Map();
    const tall = Math.max(lane >= 4 ? lane - 1 : lane, 0.6);
    let drawn = 0;
    const losses = [];
    stop.lines.forEach((line, number) => {
      const y = lanesTop + number * lane;
      const first = place(line, view.from, i => stop.end[line[i]]);
      // What would fall on pixels that are taken in this colour already is not drawn again.
      let edge = -1, last = -1;
      for (let i = first; i < line.length; i++) {
        const bar = line[i];
        if (stop.start[bar] > view.to) break;
        const fate = stop.fate[bar], left = x(stop.start[bar]), right = x(stop.end[bar]);
        if (chart.fates[fate].lost) losses.push(right);
        if (fate === last && right <= edge) continue;
        const colour = chart.fates[fate].colour;
        if (!paths.has(colour)) paths.set(colour, new Path2D());
        const wide = Math.max(right - left, chart.fates[fate].lost ? 3 : 1);
        paths.get(colour).rect(left, y, wide, tall);
        edge = Math.floor(left + wide) + (wide <= 1 ? 1 : 0);
        last = fate;
        drawn++;
      }
    });
    for (const [colour, path] of paths) { paper.fillStyle = colours[colour]; paper.fill(path); }
    drawLosses(losses);
    if (chosen >= 0) {
      const y = lanesTop + stop.lane[chosen] * lane, left = x(stop.start[chosen]);
      paper.strokeStyle = colours.focus;
      paper.lineWidth = 2;
      paper.strokeRect(left - 2, y - 2, Math.max(x(stop.end[chosen]) - left, 2) + 4, tall + 4);
    }
    drawMarks(bottom);
    paper.restore();
    canvas.dataset.drawn = drawn;
    canvas.dataset.from = Math.round(view.from);
    canvas.dataset.to = Math.round(view.to);
    canvas.dataset.chosen = chosen;
  }

  function drawAxis() {
    const { width, bottom, flightTop } = layout;
    const about = (view.to - view.from) / Math.max(width / 110, 2);
    const power = 10 ** Math.floor(Math.log10(about));
    const step = Math.max([1, 2, 5, 10].find(times => times * power >= about) * power, 1);
    paper.strokeStyle = colours.line;
    paper.fillStyle = colours.quiet;
    paper.textAlign = "center";
    paper.lineWidth = 1;
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const px = Math.round(x(at)) + 0.5;
      paper.beginPath();
      paper.moveTo(px, flightTop);
      paper.lineTo(px, bottom);
      paper.stroke();
      if (px > 30 && px < width - 30) paper.fillText(words(at), px, bottom + AXIS / 2);
    }
  }

  // The most in flight within each pixel, so that a short peak is not lost between two.
  function drawFlight() {
    const { width, flightTop, lossesTop } = layout;
    const floor = lossesTop - 4, high = FLIGHT - 22;
    paper.fillStyle = colours.flight;
    let i = place(stop.when, view.from);
    let now = i > 0 ? stop.flight[i - 1] : 0;
    for (let px = LEFT; px < width - RIGHT; px++) {
      const end = time(px + 1);
      let most = now;
      while (i < stop.when.length && stop.when[i] < end) { now = stop.flight[i++]; most = Math.max(most, now); }
      if (most > 0) {
        const tall = Math.max(high * most / stop.peak, 1);
        paper.fillRect(px, floor - tall, 1, tall);
      }
    }
    paper.fillStyle = colours.quiet;
    paper.textAlign = "left";
    if (stop.peak > 0) paper.fillText(`in flight, at most ${number(stop.peak)}`, LEFT + 4, flightTop + 7);
  }

  function drawOwn() {
    const { ownTop } = layout;
    paper.textAlign = "left";
    stop.own.phases.forEach(([name, from, to], i) => {
      const left = x(from), wide = Math.max(x(to) - left, 1);
      paper.globalAlpha = i % 2 ? 0.55 : 0.8;
      paper.fillStyle = colours.own;
      paper.fillRect(left, ownTop, wide, ROW);
      paper.globalAlpha = 1;
      const shown = Math.max(left, LEFT) + 4;
      if (paper.measureText(name).width + 8 < left + wide - shown + 4) {
        paper.fillStyle = colours.sheet;
        paper.fillText(name, shown, ownTop + ROW / 2 + 1);
      }
    });
    paper.fillStyle = colours.own;
    for (const [at] of stop.own.events) paper.fillRect(x(at) - 0.5, ownTop + ROW, 1, 5);
  }

  // Each loss has a cross of its own that no other bar can hide.
  function drawLosses(losses) {
    const y = layout.lossesTop + LOSSES / 2 - 1;
    paper.strokeStyle = colours.lost;
    paper.lineWidth = 1.5;
    const taken = new Set();
    paper.beginPath();
    for (const at of losses) {
      const px = Math.round(at);
      if (taken.has(px)) continue;
      taken.add(px);
      paper.moveTo(px - 3, y - 3); paper.lineTo(px + 3, y + 3);
      paper.moveTo(px - 3, y + 3); paper.lineTo(px + 3, y - 3);
    }
    paper.stroke();
  }

  function drawMarks(bottom) {
    stop.marks.forEach((mark, row) => {
      const px = Math.round(x(mark.at)) + 0.5, y = row * ROW + ROW / 2 + 4;
      if (px < LEFT - 1 || px > layout.width - RIGHT + 1) return;
      paper.strokeStyle = colours.mark;
      paper.lineWidth = row === 0 ? 2 : 1;
      paper.setLineDash(row === 0 ? [] : [4, 3]);
      paper.beginPath();
      paper.moveTo(px, y);
      paper.lineTo(px, bottom);
      paper.stroke();
      paper.setLineDash([]);
      const text = [mark.words, words(mark.at), mark.label].filter(word => word).join(" · ");
      const before = px + paper.measureText(text).width + 12 > layout.width - RIGHT;
      paper.textAlign = before ? "right" : "left";
      paper.fillStyle = colours.ink;
      paper.fillText(text, before ? px - 6 : px + 6, y);
    });
  }

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  }

  // --- moving -----------------------------------------------------------------------------------------------------

  function look(from, to) {
    const whole = stop.to - stop.from;
    const span = Math.min(Math.max(to - from, LEAST), whole);
    let begin = (from + to) / 2 - span / 2;
    begin = Math.min(Math.max(begin, stop.from), stop.to - span);
    view = { from: begin, to: begin + span };
    redraw();
  }
  function zoom(times, around = (view.from + view.to) / 2) {
    const span = Math.min(Math.max((view.to - view.from) * times, LEAST), stop.to - stop.from);
    const share = (around - view.from) / (view.to - view.from);
    look(around - span * share, around + span * (1 - share));
  }
  const move = share => look(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
  const fit = () => look(stop.from, stop.to);
  // From shortly before the signal to the end.
  const fromSignal = () => look(Math.max(stop.from, -stop.to * 0.06), stop.to);

  const tell = text => { said.textContent = text; };
  const tellView = () => tell(`${words(Math.round(view.from))} to ${words(Math.round(view.to))} after the signal`);

  function describe(bar) {
    const fate = chart.fates[stop.fate[bar]];
    return `${stop.labels[stop.label[bar]] || "request"} on connection ${stop.connection[bar]}: sent at ${words(stop.start[bar])}, ` +
      `${words(stop.end[bar] - stop.start[bar])}, ${fate.words}${fate.lost ? ", lost" : ""}`;
  }

  function choose(bar) {
    chosen = bar;
    const span = view.to - view.from;
    const outside = stop.start[bar] < view.from || stop.end[bar] > view.to;
    if (outside) look(stop.start[bar] - span / 2, stop.start[bar] + span / 2);
    tell(describe(bar));
    redraw();
  }

  function step(by, wanted = () => true) {
    const count = stop.start.length;
    let bar = chosen >= 0 ? chosen : (by > 0 ? place(stop.start, view.from) - 1 : count);
    for (let tried = 0; tried < count; tried++) {
      bar = (bar + by + count) % count;
      if (wanted(bar)) return choose(bar);
    }
    tell(count ? "every request was answered" : "no requests");
  }
  const notAnswered = bar => chart.fates[stop.fate[bar]].colour !== "answered";

  // What is under the pointer: a bar, or something the target said.
  function under(px, py) {
    const at = time(px), slack = 4 / scale();
    if (stop.own && py >= layout.ownTop && py < layout.flightTop) {
      const event = stop.own.events.find(([when]) => Math.abs(when - at) < slack);
      if (event) return `${stop.own.service} says at ${words(event[0])}: ${event[1]}`;
      const phase = stop.own.phases.find(([, from, to]) => from <= at && at <= to);
      return phase && `${stop.own.service} was in its phase ${phase[0]}, ${words(phase[1])} to ${words(phase[2])}`;
    }
    const line = stop.lines[Math.floor((py - layout.lanesTop) / layout.lane)];
    if (!line) return undefined;
    const first = place(line, at - slack, i => stop.end[line[i]]);
    if (first < line.length && stop.start[line[first]] <= at + slack) return line[first];
    return undefined;
  }

  // --- the table of requests ----------------------------------------------------------------------------------------

  const PAGE = 100;
  let page = 0;
  function fillTable() {
    if (!byId("requests").open) return;
    const all = stop.start.map((_, bar) => bar).filter(bar => !byId("only").checked || notAnswered(bar));
    const pages = Math.max(Math.ceil(all.length / PAGE), 1);
    page = Math.min(Math.max(page, 0), pages - 1);
    const rows = all.slice(page * PAGE, (page + 1) * PAGE).map(bar => {
      const row = document.createElement("tr");
      const fate = chart.fates[stop.fate[bar]];
      const cells = [stop.labels[stop.label[bar]], stop.connection[bar], words(stop.start[bar]),
        words(stop.end[bar] - stop.start[bar]), fate.words + (fate.lost ? ", lost" : "")];
      cells.forEach((text, i) => {
        const cell = document.createElement(i === 0 ? "th" : "td");
        if (i === 0) cell.scope = "row";
        cell.textContent = text;
        row.append(cell);
      });
      return row;
    });
    byId("rows").replaceChildren(...rows);
    byId("page").textContent = all.length === 0 ? "none" :
      `${number(page * PAGE + 1)} to ${number(page * PAGE + rows.length)} of ${number(all.length)}` +
      (stop.omitted ? `; ${number(stop.omitted)} more are counted and not kept` : "");
  }

  // --- the world ----------------------------------------------------------------------------------------------------

  function show(at) {
    stop = prepare(at);
    chosen = -1;
    page = 0;
    measure();
    fromSignal();
    fillTable();
    canvas.setAttribute("aria-label", `${stop.name}: ${number(stop.start.length)} requests as bars against ` +
      stop.marks.map(mark => `${mark.words} at ${words(mark.at)}`).join(", "));
  }

  const doing = {
    in: () => { zoom(0.5); tellView(); },
    out: () => { zoom(2); tellView(); },
    fit: () => { fit(); tellView(); },
    stop: () => { fromSignal(); tellView(); },
    next: () => step(1, notAnswered),
    earlier: () => { page--; fillTable(); },
    later: () => { page++; fillTable(); },
  };
  for (const button of document.querySelectorAll("button[data-do]"))
    button.addEventListener("click", () => doing[button.dataset.do]());
  byId("only").addEventListener("change", () => { page = 0; fillTable(); });
  byId("requests").addEventListener("toggle", fillTable);
  choice.addEventListener("change", () => { show(Number(choice.value)); tellView(); });

  const keys = {
    ArrowLeft: () => { move(-0.1); tellView(); },
    ArrowRight: () => { move(0.1); tellView(); },
    ArrowUp: () => doing.in(), ArrowDown: () => doing.out(),
    "+": () => doing.in(), "=": () => doing.in(), "-": () => doing.out(), "−": () => doing.out(),
    0: () => doing.fit(),
    Home: () => { const span = view.to - view.from; look(stop.from, stop.from + span); tellView(); },
    End: () => { const span = view.to - view.from; look(stop.to - span, stop.to); tellView(); },
    ",": () => step(-1), ".": () => step(1), n: () => step(1, notAnswered),
    Escape: () => { chosen = -1; tell(""); redraw(); },
  };
  canvas.addEventListener("keydown", event => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  // Without Ctrl the wheel is the page's.
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 60) / 200), time(event.offsetX));
  }, { passive: false });

  let drag = null;
  canvas.addEventListener("pointerdown", event => {
    drag = { x: event.offsetX, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (drag) {
      const by = (drag.x - event.offsetX) / scale();
      if (Math.abs(drag.x - event.offsetX) > 1) { drag.moved = true; drag.x = event.offsetX; look(view.from + by, view.to + by); }
      return;
    }
    const found = under(event.offsetX, event.offsetY);
    if (typeof found === "number") tell(describe(found));
    else if (found) tell(found);
  });
  canvas.addEventListener("pointerup", event => {
    const clicked = drag && !drag.moved;
    drag = null;
    const found = clicked ? under(event.offsetX, event.offsetY) : undefined;
    if (typeof found === "number") choose(found);
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("dblclick", event => zoom(0.5, time(event.offsetX)));

  const renew = () => { readColours(); measure(); draw(); };
  new ResizeObserver(() => { if (canvas.clientWidth !== layout.width) { measure(); redraw(); } }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renew);
  // Paper is light whatever the screen is.
  matchMedia("print").addEventListener("change", renew);
  // On paper a reader cannot open anything.
  addEventListener("beforeprint", () => { byId("in-words").open = chart.stops.length <= 4; });
  readColours();
  show(Number(choice.value));
})();
