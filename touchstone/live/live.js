/* Keeps the open page up to date, in place. Added by the live server; a published page does not carry it.

   The stream names the pages that changed and brings what is new on ours: the page as it is now, in which rows that
   have not changed are empty and carry the mark that we know them by. What differs is exchanged and nothing else, so
   that open <details>, filters, sorting, the text selection, focus and the scroll position stay. Whatever does not
   fit (a row that we do not have, a connection that was lost) is mended by fetching the whole page, in place too. */
(() => {
  "use strict";
  const script = document.currentScript;
  const say = JSON.parse(script.dataset.words);
  const here = (() => {
    const path = decodeURIComponent(location.pathname).slice(1);
    return path === "" || path.endsWith("/") ? path + "index.html" : path;
  })();
  const REGIONS = ["header.top", ".bundle", "main", "footer"];
  const MARKED = "tr[id], article[id]";
  const NEW_MS = 10000;
  const STREAMS = 4; // of the six connections that a browser grants us

  let last = script.dataset.build;
  let stream = null;
  let paused = false;
  let behind = false; // something changed that is not shown yet
  let fetching = false;
  let behindFault = null; // what the page showed before it could not be built

  // -- the one line that says how things stand

  const bar = document.createElement("div");
  bar.className = "live";
  const state = bar.appendChild(document.createElement("span"));
  state.className = "live-state";
  state.append(Object.assign(document.createElement("span"), { className: "dot" }), document.createElement("span"));
  const button = bar.appendChild(Object.assign(document.createElement("button"), { type: "button", className: "btn" }));
  const status = bar.appendChild(Object.assign(document.createElement("span"), { className: "vh" }));
  status.setAttribute("role", "status");

  const write = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };
  function show(name) {
    const now = name === "live" && paused ? (behind ? "news" : "paused") : name;
    if (bar.dataset.state !== now) bar.dataset.state = now;
    write(state.lastChild, say[now]);
    write(button, paused ? say.resume : say.pause);
    if (now === "lost" || now === "gone" || now === "elsewhere") write(status, say[now]);
  }
  button.addEventListener("click", () => {
    paused = !paused;
    show("live");
    if (!paused && behind) refetch();
  });

  function place() {
    const head = document.querySelector("main .lead-head") || document.querySelector("main h1");
    if (head && !bar.isConnected) {
      if (head.tagName === "H1") head.after(bar);
      else head.append(bar);
    }
  }

  // A screen reader hears of each quarter, not of each verdict.
  const quarter = () => {
    const progress = document.querySelector("main progress");
    return progress ? Math.floor((4 * progress.value) / progress.max) : null;
  };
  let reached = quarter();
  function milestone() {
    const now = quarter();
    if (now !== null && reached !== null && now > reached) {
      write(status, document.querySelector("main .answer")?.textContent ?? "");
    }
    reached = now;
  }

  // -- marks: which version of a row or card an element shows

  const marks = new WeakMap();

  function learn(root, list) {
    const elements = root.querySelectorAll(MARKED);
    const names = list ? list.split(" ") : [];
    if (elements.length === names.length) elements.forEach((element, index) => marks.set(element, names[index]));
  }

  /* Empty elements of a page that came trimmed, each with the one on our page that it stands for; null: we lack one. */
  function stands(page) {
    const known = new Map();
    for (const element of page.querySelectorAll("[data-h]")) {
      const mark = element.dataset.h;
      element.removeAttribute("data-h");
      if (element.firstChild) {
        marks.set(element, mark);
        continue;
      }
      const shown = document.getElementById(element.id);
      if (!shown || marks.get(shown) !== mark) return null;
      known.set(element, shown);
    }
    return known;
  }

  // -- exchanging what differs

  let known = new Map();

  function sync(old, fresh) {
    if (known.get(fresh) === old) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    const mark = marks.get(fresh);
    if (mark !== undefined) {
      const same = marks.get(old) === mark;
      marks.set(old, mark);
      if (same) return;
    }
    // What the reader, or a script of the page, did to it is no difference.
    if (old.tagName === "DETAILS") fresh.open = old.open;
    if (old.hidden !== fresh.hidden) fresh.hidden = old.hidden;
    if (old.classList.contains("is-new")) fresh.classList.add("is-new");
    if (old.isEqualNode(fresh)) {
      if (fresh.querySelector(MARKED)) inherit(old, fresh);
      return;
    }
    attributes(old, fresh);
    if (!old.hasAttribute("data-own")) children(old, fresh);
  }

  function inherit(old, fresh) {
    const from = fresh.querySelectorAll(MARKED);
    old.querySelectorAll(MARKED).forEach((element, index) => {
      if (marks.has(from[index])) marks.set(element, marks.get(from[index]));
    });
  }

  function attributes(old, fresh) {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }

  const blank = (node) => node.nodeType === Node.TEXT_NODE && !node.nodeValue.trim();

  function children(old, fresh) {
    // Our own line is on no page.
    const before = [...old.childNodes].filter((node) => node !== bar);
    const after = [...fresh.childNodes];
    const bare = (nodes) => nodes.every((node) => node.nodeType === Node.ELEMENT_NODE || blank(node));
    if (before.length > 0 && bare(before) && bare(after)) {
      const elements = (node) => node.nodeType === Node.ELEMENT_NODE;
      byName(old, before.filter(elements), after.filter(elements));
    } else {
      inOrder(old, before, after);
    }
  }

  /* Pairs what has the same id or heading; what has neither, by its place among those of its kind. */
  function byName(parent, before, after) {
    const olds = named(before);
    const places = new Map(before.map((element, index) => [element, index]));
    const pairs = [];
    for (const [name, fresh] of named(after)) {
      const old = known.get(fresh) ?? olds.get(name);
      const fits = old && old.nodeName === fresh.nodeName;
      if (fits) olds.delete(name);
      pairs.push([fits ? old : undefined, fresh]);
    }
    for (const gone of olds.values()) gone.remove();
    const still = staying(pairs.map(([old]) => places.get(old) ?? -1));
    let next = bar.parentNode === parent ? bar : null;
    for (let index = pairs.length - 1; index >= 0; index -= 1) {
      const [old, fresh] = pairs[index];
      if (!old) {
        if (fresh.matches(MARKED)) fresh.classList.add("is-new");
        parent.insertBefore(fresh, next);
      } else {
        if (!still.has(index)) move(parent, old, next);
        sync(old, fresh);
      }
      next = old ?? fresh;
    }
  }

  function named(elements) {
    const names = new Map();
    const counts = new Map();
    for (const element of elements) {
      let name = element.id || element.getAttribute("aria-labelledby");
      if (!name || names.has(name)) {
        const count = (counts.get(element.nodeName) ?? 0) + 1;
        counts.set(element.nodeName, count);
        name = element.nodeName + " " + count;
      }
      names.set(name, element);
    }
    return names;
  }

  function move(parent, element, next) {
    // The newer way keeps the focus and all else that a move would lose.
    if (parent.moveBefore && parent.contains(element)) parent.moveBefore(element, next);
    else parent.insertBefore(element, next);
  }

  /* The longest run of places that already stand in order (-1: no place): these elements need not be moved. */
  function staying(places) {
    const ends = [];
    const prior = [];
    places.forEach((placed, index) => {
      if (placed < 0) return;
      let low = 0;
      let high = ends.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (places[ends[middle]] < placed) low = middle + 1;
        else high = middle;
      }
      prior[index] = low > 0 ? ends[low - 1] : -1;
      ends[low] = index;
    });
    const found = new Set();
    for (let index = ends.length ? ends[ends.length - 1] : -1; index >= 0; index = prior[index]) found.add(index);
    return found;
  }

  function inOrder(parent, before, after) {
    after.forEach((node, index) => {
      if (index < before.length) sync(before[index], node);
      else parent.insertBefore(node, bar.parentNode === parent ? bar : null);
    });
    before.slice(after.length).forEach((node) => node.remove());
  }

  /* False: the page came trimmed and does not fit ours. */
  function take(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    if ("fault" in page.documentElement.dataset) {
      fault(page);
      return true;
    }
    if (behindFault) {
      document.querySelector("main").replaceWith(behindFault.main);
      scrollTo(0, behindFault.scroll);
      behindFault = null;
    } else if ("fault" in document.documentElement.dataset) {
      location.reload();
      return true;
    }
    const found = stands(page);
    if (found === null) return false;
    learn(page, page.querySelector("script[data-marks]")?.dataset.marks);
    known = found;
    const focus = document.activeElement;
    const anchored = anchor();
    const settle = globalThis.sortableTables?.prepare(page, document, (row) => known.get(row) ?? row);
    for (const region of REGIONS) {
      const old = document.querySelector(region);
      const fresh = page.querySelector(region);
      if (old && fresh) sync(old, document.adoptNode(fresh));
    }
    known = new Map();
    settle?.();
    if (document.title !== page.title) document.title = page.title;
    if (document.documentElement.lang !== page.documentElement.lang) {
      document.documentElement.lang = page.documentElement.lang;
    }
    if (focus !== document.activeElement && focus?.isConnected) focus.focus({ preventScroll: true });
    place();
    milestone();
    anchored();
    return true;
  }

  /* New rows above must not push away what is being read; most browsers see to that themselves. */
  function anchor() {
    if (scrollY === 0 || CSS.supports("overflow-anchor", "auto")) return () => {};
    const seen = [...document.querySelectorAll("main tr, main section, main article")]
      .find((element) => element.getBoundingClientRect().top >= 0);
    const top = seen?.getBoundingClientRect().top;
    return () => {
      if (seen?.isConnected) scrollBy(0, seen.getBoundingClientRect().top - top);
    };
  }

  function fault(page) {
    const main = document.querySelector("main");
    const fresh = document.adoptNode(page.querySelector("main"));
    if (!behindFault && !("fault" in document.documentElement.dataset)) {
      behindFault = { main, scroll: scrollY };
      bar.remove();
    }
    main.replaceWith(fresh);
    bar.remove();
    place();
    write(status, fresh.querySelector("h1").textContent);
  }

  function fade() {
    const seen = [...document.querySelectorAll("main .is-new")];
    if (seen.length) setTimeout(() => seen.forEach((element) => element.classList.remove("is-new")), NEW_MS);
  }

  // -- what the stream says

  function changed(html) {
    if (paused) {
      behind = true;
      show("live");
    } else if (fetching || html === undefined || !take(html)) {
      refetch();
    } else {
      fade();
      show("live");
    }
  }

  async function refetch() {
    behind = true;
    if (fetching || paused) return;
    fetching = true;
    try {
      while (behind && !paused) {
        behind = false;
        const response = await fetch(location.pathname, { cache: "no-store" });
        if (response.status === 404) {
          show("gone");
        } else if (!response.ok && response.status !== 503) {
          throw new Error(response.statusText);
        } else {
          take(await response.text());
          fade();
          show("live");
        }
      }
    } catch {
      behind = true;
      setTimeout(() => { if (stream && behind) refetch(); }, 1000);
    } finally {
      fetching = false;
    }
  }

  function restyle(paths) {
    if (paths.some((path) => !path.endsWith(".css"))) {
      location.reload();
      return;
    }
    for (const old of document.querySelectorAll("link[rel=stylesheet]")) {
      const link = old.cloneNode();
      const url = new URL(old.href);
      url.searchParams.set("live", last);
      link.href = url.href;
      link.addEventListener("load", () => old.remove());
      old.after(link);
    }
  }

  // -- the stream: given back while nobody looks, for a browser has only six connections for all our pages

  let windows = null;
  const me = String(Math.random());
  const newer = new Set();

  function open() {
    if (stream || document.hidden) return;
    newer.clear();
    windows = new BroadcastChannel("touchstone");
    windows.addEventListener("message", ({ data }) => {
      if (data.closed) newer.delete(data.closed);
      if (data.opened) newer.add(data.opened);
      if (newer.size >= STREAMS) {
        close();
        show("elsewhere");
      }
    });
    windows.postMessage({ opened: me });
    const opened = new EventSource("/events?page=" + encodeURIComponent(here) + "&last=" + encodeURIComponent(last));
    stream = opened;
    opened.addEventListener("open", () => {
      show("live");
      if (behind) refetch();
    });
    opened.addEventListener("error", () => {
      if (stream !== opened) return;
      show("lost");
      // A browser tries again by itself, but not after an answer that was no stream.
      if (opened.readyState === EventSource.CLOSED) {
        close();
        setTimeout(open, 2000);
      }
    });
    opened.addEventListener("change", (event) => {
      last = event.lastEventId;
      const { paths, html } = JSON.parse(event.data);
      const assets = paths.filter((path) => path.startsWith("assets/"));
      if (assets.length) restyle(assets);
      if (paths.includes(here)) changed(html);
    });
    opened.addEventListener("reset", (event) => {
      last = event.lastEventId;
      changed();
    });
  }

  function close() {
    if (!stream) return;
    stream.close();
    stream = null;
    windows.postMessage({ closed: me });
    windows.close();
  }

  learn(document, script.dataset.marks);
  place();
  show("live");
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("focus", open);
  // An open stream would keep the page out of the browser's cache for going back.
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
