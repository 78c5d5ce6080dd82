/* Keeps the open page up to date, in place. Added by the live server; a published page carries no script.

   A change names the pages it touched; when ours is among them, it is fetched again and compared with what is shown.
   Only what differs is exchanged: elements with an id keep their identity, open <details>, chosen filters, the text
   selection, focus and the scroll position stay. */
(() => {
  "use strict";
  const script = document.currentScript;
  const german = document.documentElement.lang.startsWith("de");
  const say = german
    ? { live: "Live", paused: "Angehalten", lost: "Verbindung unterbrochen, neuer Versuch läuft",
        pause: "Anhalten", resume: "Weiter" }
    : { live: "Live", paused: "Paused", lost: "Connection lost, trying again", pause: "Pause", resume: "Resume" };

  let last = script.dataset.build;
  let stream = null;
  let paused = false;
  let waiting = false;
  let busy = false;

  const here = (() => {
    const path = decodeURIComponent(location.pathname).slice(1);
    return path === "" || path.endsWith("/") ? path + "index.html" : path;
  })();

  // -- the one line that says how things stand

  const bar = document.createElement("div");
  bar.className = "live";
  bar.innerHTML = '<span class="live-state" role="status"><span class="dot" aria-hidden="true"></span>'
    + '<span class="live-text"></span></span><button type="button" class="btn"></button>';
  const text = bar.querySelector(".live-text");
  const button = bar.querySelector("button");
  const show = (state) => {
    bar.dataset.state = state;
    if (text.textContent !== say[state]) text.textContent = say[state];
    const label = paused ? say.resume : say.pause;
    if (button.textContent !== label) button.textContent = label;
  };
  button.addEventListener("click", () => {
    paused = !paused;
    show(paused ? "paused" : "live");
    if (!paused && waiting) update();
  });

  // -- in place

  const keyed = (element) => element.children.length > 0 && [...element.children].every((child) => child.id);

  function sync(old, fresh) {
    if (old.nodeType === Node.ELEMENT_NODE && old.tagName === "DETAILS") fresh.open = old.open;
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
      return;
    }
    attributes(old, fresh);
    if (keyed(old) && keyed(fresh)) byId(old, fresh);
    else inOrder(old, fresh);
  }

  function attributes(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" && old.tagName === "DETAILS")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  }

  function byId(old, fresh) {
    const known = new Map([...old.children].map((child) => [child.id, child]));
    let at = old.firstElementChild;
    for (const child of [...fresh.children]) {
      const match = known.get(child.id);
      if (!match) {
        child.classList.add("is-new");
        old.insertBefore(child, at);
        continue;
      }
      known.delete(child.id);
      if (match === at) at = at.nextElementSibling;
      else old.insertBefore(match, at);
      sync(match, child);
    }
    for (const gone of known.values()) gone.remove();
  }

  function inOrder(old, fresh) {
    // Our own line is on no page; taken out and put back, its button would lose the focus.
    const before = [...old.childNodes].filter((child) => child !== bar);
    const after = [...fresh.childNodes];
    after.forEach((child, index) => {
      if (index < before.length) sync(before[index], child);
      else old.append(child);
    });
    before.slice(after.length).forEach((child) => child.remove());
  }

  async function update() {
    if (paused || busy) {
      waiting = true;
      return;
    }
    busy = true;
    waiting = false;
    try {
      const response = await fetch(location.pathname, { cache: "no-store" });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const main = document.querySelector("main");
      const fresh = page.querySelector("main");
      if (!main || !fresh) location.reload();
      if (document.title !== page.title) document.title = page.title;
      sync(main, document.adoptNode(fresh));
      place();
    } catch {
      waiting = true;
    } finally {
      busy = false;
    }
    if (waiting && !paused) setTimeout(update, 200);
  }

  function place() {
    const head = document.querySelector("main .lead-head") || document.querySelector("main h1");
    if (head && !bar.isConnected) {
      if (head.tagName === "H1") head.after(bar);
      else head.append(bar);
    }
  }

  // -- the stream: given back while nobody looks, for a browser has only six

  function open() {
    if (stream) return;
    stream = new EventSource("/events?last=" + encodeURIComponent(last));
    stream.addEventListener("open", () => show(paused ? "paused" : "live"));
    stream.addEventListener("error", () => {
      show("lost");
      // A browser tries again by itself, but not after an answer that was no stream.
      if (stream && stream.readyState === EventSource.CLOSED) {
        close();
        setTimeout(() => { if (!document.hidden) open(); }, 2000);
      }
    });
    stream.addEventListener("change", (event) => {
      last = event.lastEventId;
      const { paths } = JSON.parse(event.data);
      if (paths.some((path) => path.startsWith("assets/"))) location.reload();
      else if (paths.includes(here)) update();
    });
    stream.addEventListener("reset", (event) => {
      last = event.lastEventId;
      update();
    });
  }

  function close() {
    if (stream) stream.close();
    stream = null;
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => { if (!document.hidden) open(); });
  place();
  show("live");
  if (!document.hidden) open();
})();
