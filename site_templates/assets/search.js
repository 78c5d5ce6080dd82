/* Search over all runs, packs, prompts and the judge's reasons. Without this script the page lists its runs as ever.

   A classic script that loads classic scripts, for it has to work from file://. Nothing is loaded before somebody
   searches: then the first part, and further ones only while there are not enough results. */
(() => {
  "use strict";
  const form = document.getElementById("search");
  if (!form) return;
  const say = form.dataset;
  const root = say.root.replace(/index\.html$/, ""), here = say.lang.replace(/index\.html$/, "");
  const box = form.querySelector("input");
  const choices = [...form.querySelectorAll("select")];
  const status = document.getElementById("search-status");
  const list = document.getElementById("search-results");
  const listed = document.getElementById("listed");
  const ENOUGH = 60;

  const runs = [], packs = [], shards = new Map();
  let waiting = null; // what the script that is being loaded hands over
  const loaded = new Map();

  window.touchstoneSearch = {
    part(entries) { for (const entry of entries) (entry.prompts ? packs : runs).push(entry); waiting = true; },
    shard([head, ...rows]) { waiting = { head, rows }; },
  };

  function load(path) {
    if (!loaded.has(path)) {
      loaded.set(path, new Promise((done) => {
        const script = document.createElement("script");
        script.src = root + path;
        const end = (got) => { script.remove(); done(got); };
        script.onload = () => { const got = waiting; waiting = null; end(got); };
        script.onerror = () => end(null);
        document.head.append(script);
      }));
    }
    return loaded.get(path);
  }

  // One script at a time: each hands over through one place.
  let queue = Promise.resolve();
  const inTurn = (path) => (queue = queue.then(() => load(path)));

  let parts = 0;
  const nextPart = async () => parts < Number(say.parts) && (await inTurn(`data/search-${++parts}.js`));

  // -- what matches

  const plain = (text) => String(text ?? "").normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const hits = (terms, ...texts) => { const all = plain(texts.join("\n")); return terms.every((term) => all.includes(term)); };

  const chosen = () => Object.fromEntries(choices.filter((each) => each.value).map((each) => [each.name, each.value]));
  const fits = (run, want) => (!want.pack || run.pack === want.pack) && (!want.judge || run.judge === want.judge)
    && (!want.model || run.models.includes(want.model)) && (!want.month || (run.day ?? "").startsWith(want.month));

  // -- what is shown

  function link(href, text) {
    const a = document.createElement("a");
    a.href = here + href;
    a.textContent = text;
    return a;
  }

  function add(kind, anchor, more) {
    const item = document.createElement("li");
    const label = document.createElement("span");
    label.className = "kind";
    label.textContent = say[kind];
    item.append(label, " ", anchor);
    if (more) {
      const small = document.createElement("small");
      small.className = "sub";
      small.textContent = more;
      item.append(small);
    }
    list.append(item);
  }

  function around(text, term) {
    const at = plain(text).indexOf(term);
    const start = Math.max(0, at - 60);
    return (start ? "…" : "") + text.slice(start, start + 200) + (text.length > start + 200 ? "…" : "");
  }

  let turn = 0;

  async function search() {
    const mine = ++turn;
    const terms = plain(box.value).split(/\s+/).filter(Boolean);
    const want = chosen();
    const asked = terms.length > 0 || Object.keys(want).length > 0;
    list.hidden = status.hidden = !asked;
    if (listed) listed.hidden = asked;
    list.replaceChildren();
    if (!asked) return;
    status.textContent = say.busy;
    if (parts === 0) await nextPart();
    options();
    let found = 0, seenRuns = 0, seenPacks = 0;
    const held = [];
    for (;;) {
      if (mine !== turn) return;
      for (; seenRuns < runs.length; seenRuns++) {
        const run = runs[seenRuns];
        if (!fits(run, want)) continue;
        held.push(run);
        if (hits(terms, run.title, run.run, run.pack, run.judge, run.models.join("\n"))) {
          if (found++ < ENOUGH) add("run", link(run.at, run.title), [run.run, run.judge].filter(Boolean).join(" · "));
        }
      }
      for (; terms.length && seenPacks < packs.length; seenPacks++) {
        const pack = packs[seenPacks];
        if (want.judge || want.model || want.month || (want.pack && pack.pack !== want.pack)) continue;
        for (const [id, title] of pack.prompts) {
          if (hits(terms, id, title) && found++ < ENOUGH) add("prompt", link(`${pack.at}#p-${encodeURIComponent(id)}`, title || id), pack.pack);
        }
      }
      if (!(await nextPart())) break;
    }
    for (const run of terms.length ? held : []) {
      for (let n = 1; n <= run.shards && found < ENOUGH; n++) {
        const path = `${run.at.replace(/index\.html$/, "")}judge/search-${n}.js`;
        if (!shards.has(path)) {
          const got = await inTurn(path);
          if (mine !== turn) return;
          if (got?.rows) shards.set(path, got);
        }
        const { head, rows } = shards.get(path) ?? { rows: [] };
        for (const [id, page, prompt, cell, score, flag, text] of rows) {
          const [promptId, title] = head.prompts[prompt];
          if (want.model && !head.cells[cell].startsWith(want.model + " ")) continue;
          if (!hits(terms, text, title, promptId, head.cells[cell])) continue;
          if (found++ >= ENOUGH) break;
          const about = `${title || promptId} · ${head.cells[cell]} · ${score === null ? say.unscored : `${score}/5`}${flag ? ` · ${say.flag}` : ""}`;
          add("verdict", link(`${head.home}verdicts-${page}.html#${id}`, about), around(text, terms[0]));
        }
      }
    }
    status.textContent = found === 0 ? say.none : found > ENOUGH ? say.more.replace("%", ENOUGH) : say.found.replace("%", found);
  }

  // -- filters: what there is to choose from comes with the first part

  const known = { pack: (run) => [run.pack], judge: (run) => [run.judge], model: (run) => run.models, month: (run) => [run.day?.slice(0, 7)] };
  let filled = 0;
  function options() {
    if (filled === runs.length) return;
    filled = runs.length;
    for (const select of choices) {
      const values = [...new Set(runs.flatMap(known[select.name]).filter(Boolean))].sort();
      const before = select.value;
      select.replaceChildren(select.options[0], ...values.slice(0, 500).map((value) => new Option(value, value)));
      select.value = before;
    }
  }
  const prepare = async () => { if (parts === 0) { await nextPart(); options(); } };

  let timer = 0;
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 120); });
  for (const select of choices) {
    select.addEventListener("focus", prepare);
    select.addEventListener("pointerdown", prepare);
    select.addEventListener("change", search);
  }
  form.hidden = false;
})();
