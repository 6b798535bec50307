"use strict";
// Filters the matrix, compares requests, and shows one cell at a time, all from the data in the page. Data is set as
// text, never as HTML. No request is sent to any server.
(async () => {
  if (typeof DecompressionStream === "undefined") { document.getElementById("too-old").hidden = false; return; }
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (each) => each.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = JSON.parse(await new Response(unpacked).text());
  const overview = document.getElementById("overview");
  const view = document.getElementById("cell");
  const head = document.querySelector("header");
  document.documentElement.classList.add("scripted");

  const text = (index) => data.texts[index];
  const glyphs = data.glyphs;

  // What would turn the direction of writing, or has no picture, is shown by its number.
  const plain = (value) => String(value).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (found) => "\\u" + found.charCodeAt(0).toString(16).padStart(4, "0"));

  function make(name, options = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (key === "class") made.className = value;
      else if (key === "click") made.addEventListener("click", value);
      else made.setAttribute(key, value);
    }
    for (const child of children) if (child !== null && child !== undefined)
      made.append(child instanceof Node ? child : plain(child));
    return made;
  }

  // Cells by where their links lead, and those of a scenario together.

  const address = (cell) => "#cell/" + [cell.s, cell.t, cell.v].map((part) => encodeURIComponent(wellFormed(text(part)))).join("/");
  const wellFormed = (value) => value.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "?");
  const parts = (hash) => { try { return hash.slice(6).split("/").map(decodeURIComponent).join("\n"); } catch { return ""; } };
  const byAddress = new Map(data.cells.map((cell, at) => [parts(address(cell)), at]));
  const ofScenario = new Map();
  for (const cell of data.cells) ofScenario.set(cell.s, [...(ofScenario.get(cell.s) || []), cell]);

  // JSON as its lines: each value has its pointer, and a number its own spelling.

  class Numeral { constructor(source) { this.source = source; } }

  const read = (source) => JSON.parse(source, (_key, value, context) =>
    typeof value === "number" && context && context.source !== undefined && String(value) !== context.source
      ? new Numeral(context.source) : value);

  function body(index) {
    const shape = data.bodies[index];
    if (typeof shape === "number") return { value: read(text(shape)), kept: new Map([["", shape]]) };
    const value = {}, kept = new Map();
    const [keys, ...members] = shape;
    for (const [at, member] of members.entries()) {
      const key = text(data.lists[keys][at]);
      const pointer = "/" + escaped(key);
      const whole = Array.isArray(member) ? member.map((each) => read(text(each))) : read(text(member));
      Object.defineProperty(value, key, { value: whole, enumerable: true });
      kept.set(pointer, JSON.stringify(member));
      if (Array.isArray(member)) member.forEach((each, at) => kept.set(pointer + "/" + at, String(each)));
    }
    return { value, kept };
  }

  const escaped = (key) => key.replaceAll("~", "~0").replaceAll("/", "~1");
  const isPlain = (value) => value === null || typeof value !== "object" || value instanceof Numeral;

  function flat(value) {
    if (value instanceof Numeral) return value.source;
    if (isPlain(value)) return JSON.stringify(value);
    if (Array.isArray(value)) return "[" + value.map(flat).join(", ") + "]";
    return "{" + Object.entries(value).map(([key, each]) => JSON.stringify(key) + ": " + flat(each)).join(", ") + "}";
  }

  function lines(value, opened, out = [], pointer = "", depth = 0, before = "", behind = "") {
    const margin = "  ".repeat(depth);
    const entries = isPlain(value) ? [] : Object.entries(value);
    if (entries.length) {
      const onWay = opened.some((each) => each !== pointer && each.startsWith(pointer + "/"));
      const short = onWay ? "" : flat(value);
      if (onWay || depth === 0 || margin.length + before.length + short.length > 64) {
        const [open, close] = Array.isArray(value) ? "[]" : "{}";
        out.push({ pointer, said: margin + before + open });
        entries.forEach(([key, each], at) => lines(each, opened, out, pointer + "/" + escaped(key), depth + 1,
          Array.isArray(value) ? "" : JSON.stringify(key) + ": ", at < entries.length - 1 ? "," : ""));
        out.push({ pointer, said: margin + close + behind, closes: true });
        return out;
      }
    }
    out.push({ pointer, said: margin + before + flat(value) + behind });
    return out;
  }

  // The line that shows a place: its own, or that of the innermost value around it.
  function marked(shown, pointer) {
    for (let at = pointer; ; at = at.slice(0, at.lastIndexOf("/"))) {
      const found = shown.findIndex((line) => line.pointer === at && !line.closes);
      if (found >= 0) return found;
      if (!at) return 0;
    }
  }

  function json(index, earlier, found) {
    const { value, kept } = body(index);
    const pointers = found.map(({ finding }) => text(finding.pointer));
    const then = earlier === null ? new Map() : body(earlier).kept;
    const same = [...kept].filter(([at, what]) => at && then.get(at) === what).map(([at]) => at);
    const grown = [...kept.keys()].filter((at) => at.lastIndexOf("/") > 0 && then.size);
    const shown = lines(value, [...pointers, ...grown]);
    const hits = new Map();
    found.forEach((each, at) => {
      const line = marked(shown, pointers[at]);
      hits.set(line, [...(hits.get(line) || []), each]);
    });
    const made = make("pre", { class: "json" });
    let skipped = 0;
    const close = () => {
      if (skipped) made.append(make("span", { class: "line before" }, `… ${skipped} ${skipped > 1 ? "lines" : "line"} as before`));
      skipped = 0;
    };
    shown.forEach((line, at) => {
      const here = hits.get(at);
      if (!here && same.some((each) => line.pointer === each || line.pointer.startsWith(each + "/"))) { skipped += 1; return; }
      close();
      const span = make("span", { class: here ? "line hit" : "line" }, line.said);
      for (const { number, finding, isHere } of here || []) {
        const tag = make("span", { class: "tag" }, `← ${number} ${text(finding.rule)}`);
        if (isHere) { tag.id = `mark-${number}`; tag.tabIndex = -1; }
        span.append(tag);
      }
      made.append(span);
    });
    close();
    return made;
  }

  // Lines of an excerpt. Those that begin with ">" are marked.
  const excerpt = (shown) => make("pre", {}, ...shown.map((index) =>
    make(text(index).startsWith(">") ? "mark" : "span", { class: "line" }, text(index))));

  const folded = (summary, ...children) => make("details", {}, make("summary", {}, summary), ...children);

  // A cell

  const label = (cell) => make("span", { class: `v v-${text(cell.is)}` }, glyphs[text(cell.is)]);

  function links(cell) {
    const bar = make("div", { class: "bar" });
    for (const each of ofScenario.get(cell.s)) {
      const link = make("a", { href: address(each), class: "one" }, label(each), ` ${text(each.t)} ${text(each.v)}`);
      if (each === cell) link.setAttribute("aria-current", "page");
      bar.append(link);
    }
    return bar;
  }

  function findingOf(cell, finding, number, shownBefore) {
    const item = make("li", { value: number });
    const follows = finding.follows === undefined ? "" : `, follows from ${finding.follows + 1}`;
    item.append(make("b", {}, text(finding.rule)), make("span", { class: "dim" },
      ` ${text(finding.severity)}, ${text(finding.kind)}; at fault: ${text(finding.blame)}${follows}`));
    const where = text(finding.where);
    const says = make("div", {});
    if (where) {
      const shows = cell.sent && finding.at !== undefined && finding.pointer !== undefined;
      says.append(shows
        ? make("button", { type: "button", click: () => reveal(number) }, where) : make("code", {}, where), " ");
    }
    says.append(make("bdi", {}, text(finding.says)));
    item.append(says);
    if (finding.actual !== undefined) item.append(make("dl", { class: "values" },
      make("dt", {}, "actual"), make("dd", {}, make("code", {}, text(finding.actual))),
      ...(finding.expected === undefined ? []
        : [make("dt", {}, "expected"), make("dd", {}, make("code", {}, text(finding.expected)))])));
    if (finding.piece && !cell.sent) item.append(excerpt(finding.piece));
    for (const [end, shown] of finding.bodies || []) item.append(make("div", { class: "dim" }, text(end)), excerpt(shown));
    const isNew = finding.pair && !shownBefore.has(String(finding.pair));
    if (isNew) shownBefore.add(String(finding.pair));
    if (isNew) item.append(make("div", { class: "pair" }, ...finding.pair.map(([end, shown], at) => make("div", {},
      make("p", { class: at ? "right" : "wrong" }, `${at ? "✓ Right" : "✕ Wrong"}: ${text(end)}`), excerpt(shown)))));
    for (const [end, shown] of finding.streams || []) item.append(folded(text(end), excerpt(shown)));
    if (finding.follows === undefined && !shownBefore.has(finding.todo)) {
      shownBefore.add(finding.todo);
      item.append(make("div", {}, make("b", {}, "What to do: "), text(finding.todo)));
    }
    if (text(finding.source)) item.append(make("div", { class: "dim" }, `source: ${text(finding.source)}; more: `,
      make("code", {}, `harness explain ${text(finding.rule)}`)));
    return item;
  }

  function reveal(number) {
    const mark = document.getElementById(`mark-${number}`);
    if (mark) { mark.scrollIntoView({ block: "center", inline: "nearest" }); mark.focus({ preventScroll: true }); }
  }

  function talk(cell) {
    const list = make("ol", { class: "talk" });
    for (const [, by, what, said, name, id] of cell.said) {
      const kind = text(what);
      const who = { call: `calls ${text(name)}`, result: `${text(name)} answers`, thinking: "thinks", refusal: "refuses" }[kind]
        || (kind === "error" ? (text(name) ? `${text(name)} fails` : "fails") : text(by));
      list.append(make("li", { class: `is-${kind}` }, make("span", { class: "who" }, who),
        make("span", { class: "text" }, text(said), text(id) ? make("span", { class: "dim" }, `  ${text(id)}`) : null)));
    }
    return list;
  }

  function exchange(cell, at, isHere) {
    const [index, request, sent, status, received, streamed, leftOut, , stream] = cell.sent[at];
    const found = (cell.findings || []).map((finding, number) => ({ finding, number: number + 1, isHere }))
      .filter(({ finding }) => finding.at === index && finding.pointer !== undefined);
    const [asked, answered] = [0, 1].map((side) => found.filter(({ finding }) => (finding.answer || 0) === side));
    const before = at ? cell.sent[at - 1][2] : null;
    const made = make("div", {}, make("div", { class: "dim" }, make("code", {}, text(request))));
    if (leftOut) made.append(make("p", { class: "dim" }, "The bodies are left out: there was no room for them."));
    if (sent !== null) made.append(json(sent, before, asked));
    made.append(make("div", { class: "dim" }, status === null ? "no response"
      : `${status}${streamed ? ", streamed; shown as the equivalent whole body" : ""}`));
    if (received !== null) made.append(json(received, null, answered));
    if (stream !== undefined) made.append(folded("The raw stream", make("pre", {}, text(stream))));
    return made;
  }

  const hiddenSides = new Set();

  function sides(cell) {
    const others = ofScenario.get(cell.s).filter((each) => each !== cell && each.v === cell.v && each.sent && each.sent.length);
    const every = [cell, ...others];
    const made = make("div", {});
    const choice = make("div", { class: "bar" }, make("span", { class: "dim" }, "Beside it:"));
    const rows = make("div", {});
    const draw = () => {
      const shown = every.filter((each) => each === cell || !hiddenSides.has(each.t));
      rows.replaceChildren();
      for (let at = 0; at < Math.max(...shown.map((each) => each.sent.length)); at += 1) {
        rows.append(make("h3", {}, data.audit ? `Interaction ${cell.sent[at] ? cell.sent[at][0] : at}` : `Exchange ${at + 1}`));
        const row = make("div", { class: "sides", tabindex: "0", role: "region", "aria-label": `exchange ${at + 1}` });
        for (const each of shown) row.append(make("div", { class: each === cell ? "side chosen" : "side" },
          make("h4", {}, make("bdi", {}, text(each.t))),
          each.sent[at] ? exchange(each, at, each === cell) : make("p", { class: "dim" }, "no such exchange")));
        rows.append(row);
      }
    };
    for (const each of others) {
      const button = make("button", { type: "button", "aria-pressed": String(!hiddenSides.has(each.t)), click: () => {
        if (!hiddenSides.delete(each.t)) hiddenSides.add(each.t);
        button.setAttribute("aria-pressed", String(!hiddenSides.has(each.t)));
        draw();
      } }, text(each.t));
      choice.append(button);
    }
    if (others.length) made.append(choice);
    made.append(rows);
    draw();
    return made;
  }

  // The requests of two targets, compared by meaning

  const column = (exchange, at) => (exchange && exchange[7][at] !== undefined ? data.lists[exchange[7][at]].map(text) : []);

  // The lines of a request by their labels. A label that is repeated gets a number.
  function outline(exchange) {
    const lines = new Map();
    const [values, pointers] = [column(exchange, 1), column(exchange, 2)];
    column(exchange, 0).forEach((label, at) => {
      let name = label;
      for (let number = 2; lines.has(name); number += 1) name = `${label} (${number})`;
      lines.set(name, { value: values[at], pointer: pointers[at] });
    });
    return lines;
  }

  // The labels of both in one order: those of the second are put after the one that they follow there.
  function labels(one, other) {
    const all = [...one.keys()];
    let last = -1;
    for (const label of other.keys()) {
      const at = all.indexOf(label);
      if (at >= 0) last = at;
      else all.splice(++last, 0, label);
    }
    return all;
  }

  // A value with the part marked that is different in the other one.
  function differing(value, other) {
    let first = 0, last = 0;
    while (first < value.length && value[first] === other[first]) first += 1;
    while (last < value.length - first && last < other.length - first && value.at(-1 - last) === other.at(-1 - last)) last += 1;
    const end = value.length - last;
    return make("span", { class: "value" }, value.slice(0, first), first < end ? make("mark", {}, value.slice(first, end)) : null, value.slice(end));
  }

  function compared(one, other, onlyMarked) {
    const made = make("div", {});
    for (let at = 0; at < Math.max(one.sent.length, other.sent.length); at += 1) {
      const sides = [one, other].map((cell) => outline(cell.sent[at]));
      const names = labels(...sides);
      const isSame = (name) => sides.every((side) => side.has(name)) && sides[0].get(name).value === sides[1].get(name).value;
      const number = names.filter((name) => !isSame(name)).length;
      const rows = names.filter((name) => !onlyMarked || !isSame(name)).map((name) => make("tr", isSame(name) ? {} : { class: "differs" },
        make("th", { scope: "row" }, name), ...sides.map((side, here) => {
          const [line, theirs] = [side.get(name), sides[1 - here].get(name)];
          return make("td", {}, ...(line === undefined ? [make("span", { class: "dim" }, "nothing")]
            : [theirs === undefined ? make("mark", { class: "value" }, line.value) : differing(line.value, theirs.value),
              make("code", { class: "dim where" }, line.pointer)]));
        })));
      made.append(make("h3", {}, `Request ${at + 1}: ${number ? `${number} of ${names.length} lines differ` : "both say the same"}`));
      if (rows.length) made.append(make("div", { class: "scroll" }, make("table", { class: "pairs" },
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "what it says"),
          ...[one, other].map((cell) => make("th", { scope: "col" }, make("bdi", {}, text(cell.t)))))),
        make("tbody", {}, ...rows))));
    }
    return made;
  }

  const pair = document.getElementById("pair");

  if (pair) {
    const [scenario, one, other] = ["scenario", "one", "other"].map((name) => document.getElementById(`pair-${name}`));
    const differs = document.getElementById("pair-differs");
    const fill = (select, options, chosen) => {
      select.replaceChildren(...options.map(([value, label]) => make("option", { value }, label)));
      select.value = options.some(([value]) => String(value) === String(chosen)) ? chosen : (options[0] || [""])[0];
    };
    const known = new Map();
    for (const cell of data.cells) if (cell.sent && cell.sent.some((each) => each[7].length)) {
      const key = `${cell.s}/${cell.v}`;
      known.set(key, [...(known.get(key) || []), cell]);
    }
    const draw = () => {
      const find = (select) => known.get(scenario.value).find((cell) => String(cell.t) === select.value);
      document.getElementById("pair-shown").replaceChildren(compared(find(one), find(other), differs.checked));
    };
    const choose = () => {
      const options = known.get(scenario.value).map((cell) => [cell.t, text(cell.t)]);
      const before = [one.value, other.value];
      fill(one, options, before[0]);
      const path = (target) => known.get(scenario.value).find((cell) => String(cell.t) === String(target)).sent[0][1];
      const rest = options.filter(([value]) => String(value) !== one.value);
      const unlike = rest.find(([value]) => path(value) !== path(one.value)) || rest[0];
      fill(other, rest, rest.some(([value]) => String(value) === before[1]) ? before[1] : unlike[0]);
      draw();
    };
    const named = ([key, [cell]]) => [key, text(cell.s) + (text(cell.v) === "stream" ? " (streamed)" : "")];
    fill(scenario, [...known].filter(([, cells]) => cells.length > 1).map(named), "");
    if (scenario.value) choose();
    scenario.addEventListener("input", choose);
    one.addEventListener("input", choose);
    other.addEventListener("input", draw);
    differs.addEventListener("input", draw);
    pair.addEventListener("submit", (event) => event.preventDefault());
  }

  const isIn = (link) => !link.closest("#cells [hidden], #cells .folded");

  function neighbour(at, step) {
    const shown = [...document.querySelectorAll("#cells a.v")].filter((link) => !link.closest("#cells [hidden]"));
    const here = shown.findIndex((each) => byAddress.get(parts(each.hash)) === at);
    return shown[here + step];
  }

  function show(at) {
    const cell = data.cells[at];
    view.replaceChildren(
      make("p", {}, make("a", { href: "#matrix" }, "← all cells")),
      make("h2", { tabindex: "-1" }, label(cell), " ", make("bdi", {}, text(cell.s)), " · ", make("bdi", {}, text(cell.t)),
        ` · ${text(cell.v) === "stream" ? "streamed" : "whole"}: ${text(cell.is).replaceAll("-", " ")}`));
    const facts = ["about", "from", "cost"].filter((each) => cell[each] !== undefined).map((each) => `${each}: ${text(cell[each])}`);
    view.append(make("p", { class: "dim" }, facts.join("; ")));
    if (cell.why !== undefined) view.append(make("p", {}, text(cell.why)));
    if (!data.audit) view.append(links(cell));
    if (cell.findings) {
      const shownBefore = new Set();
      view.append(make("h3", {}, "Findings"), make("ol", { class: "findings" },
        ...cell.findings.map((finding, number) => findingOf(cell, finding, number + 1, shownBefore))));
    }
    for (const command of cell.commands || []) view.append(make("pre", { class: "command" }, text(command)));
    if (cell.said && cell.said.length) view.append(make("h3", {}, "Conversation"), talk(cell));
    if (cell.sent && cell.sent.length) view.append(sides(cell));
    else if (!cell.sent && !["not-applicable", "missing"].includes(text(cell.is)))
      view.append(make("p", { class: "dim" }, "The conversation of this cell was not kept."));
    for (const name of ["printed", "traceback"]) if (cell[name] !== undefined)
      view.append(make("h3", {}, name === "printed" ? "Printed by the adapter" : "Traceback"), make("pre", {}, text(cell[name])));
    view.querySelector("h2").focus({ preventScroll: true });
    scrollTo(0, 0);
  }

  let current = null;

  function route() {
    const found = location.hash.startsWith("#cell/") ? byAddress.get(parts(location.hash)) : undefined;
    const shows = found !== undefined;
    const left = current;
    current = shows ? found : null;
    view.hidden = !shows;
    overview.hidden = head.hidden = shows;
    if (shows) show(found);
    else {
      view.replaceChildren();
      if (left !== null) back(left);
    }
  }

  // Back where one came from, and on the mark of the cell.
  function back(left) {
    const link = [...document.querySelectorAll("#cells a.v")].find((each) => byAddress.get(parts(each.hash)) === left);
    if (link && location.hash === "#matrix") { fold(link.closest("tbody"), false); rove(link); link.scrollIntoView({ block: "center" }); link.focus({ preventScroll: true }); }
  }

  // Filters

  const form = document.getElementById("filters");
  const table = document.getElementById("cells");
  const chosen = (name) => new Set([...form.querySelectorAll(`input[name="${name}"]:checked`)].map((each) => each.value));

  function filter() {
    const words = document.getElementById("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = chosen("verdict");
    const [variants, targets] = ["variant", "target"].map((name) => form.querySelector(`input[name="${name}"]`) ? chosen(name) : null);
    const someLeftOut = form.querySelector('input[name="verdict"]:not(:checked)') !== null;
    let number = 0;
    for (const group of table.tBodies) {
      let any = false;
      for (const row of group.querySelectorAll("tr[data-about]")) {
        const named = (row.cells[0].textContent + " " + row.dataset.about).toLowerCase();
        const fits = words.every((word) => named.includes(word));
        let here = 0;
        [...row.cells].slice(1).forEach((field, at) => {
          field.hidden = targets !== null && !targets.has(String(at));
          for (const link of field.children) {
            link.hidden = !verdicts.has(link.className.slice(4)) || (variants !== null && !variants.has(link.dataset.v));
            if (fits && !link.hidden && !field.hidden) here += 1;
          }
        });
        row.hidden = !here;
        if (here && (words.length || someLeftOut)) fold(group, false);
        number += here;
        any = any || here > 0;
      }
      group.hidden = !any;
    }
    [...table.tHead.rows[0].cells].slice(1).forEach((field, at) => { field.hidden = targets !== null && !targets.has(String(at)); });
    document.getElementById("shown").textContent = `${number} of ${data.cells.length} cells`;
    rove();
  }

  // Subjects without a failure are folded at first.

  function fold(group, isFolded) {
    group.classList.toggle("folded", isFolded);
    group.querySelector(".fold").setAttribute("aria-expanded", String(!isFolded));
  }

  for (const group of table.tBodies) {
    fold(group, group.dataset.green !== undefined);
    group.querySelector(".subject").addEventListener("click", () => { fold(group, !group.classList.contains("folded")); rove(); });
  }
  const unfold = document.getElementById("unfold");
  unfold.addEventListener("click", () => {
    const all = unfold.getAttribute("aria-pressed") === "false";
    unfold.setAttribute("aria-pressed", String(all));
    for (const group of table.tBodies) fold(group, !all && group.dataset.green !== undefined);
    rove();
  });

  // One mark of the matrix is reached by Tab, the others by arrows.

  let roving = null;

  function rove(to) {
    const next = to || (roving && isIn(roving) ? roving : [...table.querySelectorAll("a.v")].find(isIn));
    if (roving) roving.tabIndex = -1;
    roving = next || null;
    if (roving) roving.tabIndex = 0;
  }

  function step(from, key) {
    const inRow = (row) => [...row.querySelectorAll("a.v")].filter(isIn);
    const row = from.closest("tr");
    const here = inRow(row);
    if (key === "ArrowLeft" || key === "ArrowRight") return here[here.indexOf(from) + (key === "ArrowLeft" ? -1 : 1)];
    const rows = [...table.querySelectorAll("tr[data-about]")].filter(isIn);
    const other = rows[rows.indexOf(row) + (key === "ArrowUp" ? -1 : 1)];
    if (!other) return undefined;
    const there = inRow(other);
    return there.find((each) => each.closest("td").cellIndex >= from.closest("td").cellIndex) || there.at(-1);
  }

  for (const each of table.querySelectorAll("a.v")) each.tabIndex = -1;
  table.addEventListener("keydown", (event) => {
    if (!event.key.startsWith("Arrow") || !event.target.matches("a.v")) return;
    event.preventDefault();
    const next = step(event.target, event.key);
    if (next) { rove(next); next.focus(); }
  });
  table.addEventListener("focusin", (event) => { if (event.target.matches("a.v")) rove(event.target); });
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  const same = document.getElementById("same");
  if (same) same.addEventListener("input", () => document.getElementById("aspects").classList.toggle("all", same.checked));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches('input[type="search"]')) return;
    if (event.key === "Escape" && current !== null) location.hash = "#matrix";
    else if (event.key === "/" && current === null) { event.preventDefault(); document.getElementById("find").focus(); }
    else if ((event.key === "j" || event.key === "k") && current !== null) {
      const next = neighbour(current, event.key === "j" ? 1 : -1);
      if (next) location.hash = next.hash;
    }
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  addEventListener("hashchange", route);
  filter();
  route();
})();
