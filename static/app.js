// Fairlist's one script: countdowns, live pages, and small comforts. Every page works without it.
//
// Time: the server writes its own instant into the page (meta "now", milliseconds). The device's clock is never
// read; `performance.now()` measures how long ago that was, so a wrong clock changes nothing.
"use strict";
(() => {
  const meta = (name, root = document) => root.querySelector(`meta[name="${name}"]`)?.content ?? "";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // ── the server's clock ──

  // The page was answered when its first byte arrived, a little after the server read its clock: the countdown
  // runs at most that much too long, and the server decides.
  let base = Number(meta("now"));
  let baseAt = performance.getEntriesByType("navigation")[0]?.responseStart ?? 0;
  const serverNow = () => base + (performance.now() - baseAt);

  const setClock = (milliseconds, at) => {
    if (milliseconds > 0) {
      base = milliseconds;
      baseAt = at;
    }
  };

  // ── countdowns ──

  // <div data-deadline="milliseconds"> with [data-digits], optionally [data-announce] (polite live region) and
  // [data-over] (shown at zero). Announced at 10, 5 and 1 minutes, not every second.
  const announced = new Map();
  const two = (n) => String(n).padStart(2, "0");

  const digits = (seconds) => {
    const days = Math.floor(seconds / 86400);
    const hours = Math.floor(seconds / 3600) % 24;
    const minutes = Math.floor(seconds / 60) % 60;
    if (days > 0) return `${days} d ${hours} h`;
    if (hours > 0) return `${hours}:${two(minutes)}:${two(seconds % 60)}`;
    return `${minutes}:${two(seconds % 60)}`;
  };

  const say = (element, text) => {
    const region = element.querySelector("[data-announce]");
    if (region && region.textContent !== text) region.textContent = text;
  };

  const tick = () => {
    for (const element of all("[data-deadline]")) {
      const deadline = Number(element.dataset.deadline);
      const left = deadline - serverNow();
      const shown = element.querySelector("[data-digits]") ?? element;
      if (left <= 0) {
        if (element.classList.contains("is-over")) continue;
        element.classList.remove("is-running", "is-long", "is-soon");
        element.classList.add("is-over");
        const over = element.dataset.overText ?? "Time is up";
        shown.textContent = over;
        say(element, over + ".");
        // The page says what happens now by itself; focus stays where it is.
        for (const part of all("[data-when-over]")) part.hidden = false;
        for (const part of all("[data-until-over]")) part.hidden = true;
        refreshSoon();
        continue;
      }
      // Rounded up, so that 0:00 is shown only when it is over.
      const seconds = Math.ceil(left / 1000);
      const text = digits(seconds);
      if (shown.textContent !== text) shown.textContent = text;
      element.classList.remove("is-over");
      element.classList.add("is-running");
      element.classList.toggle("is-long", seconds >= 3600);
      element.classList.toggle("is-soon", seconds <= 300);
      const key = element.dataset.deadline;
      const before = announced.get(key) ?? Infinity;
      const step = [1, 5, 10].find((minutes) => seconds <= minutes * 60) ?? Infinity;
      if (step < before) {
        announced.set(key, step);
        // Arriving with four minutes left is not news at "five": only a step that was crossed is said.
        if (before !== Infinity || Math.abs(seconds - step * 60) < 3) {
          say(element, step === 1 ? "1 minute left." : `${step} minutes left.`);
        }
      }
    }
  };

  // ── live pages ──

  // <body data-live="seconds">: fetches this page again and replaces every [data-live-part] whose content changed.
  // A part is left alone while somebody works in it: a form being filled in, rows selected, an open choice.
  const every = Number(document.body.dataset.live ?? 0) * 1000;
  let failures = 0;
  let timer = 0;
  let running = false;
  let gone = false;

  const dirty = (field) => {
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.type === "hidden" || field.type === "submit") return false;
    if (field.tagName === "SELECT") {
      const first = Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
      return field.selectedIndex !== first;
    }
    return field.value !== field.defaultValue;
  };

  const busy = (root) => {
    const fields = all("input, select, textarea", root);
    if (fields.some((field) => field.matches("[data-select]") && field.checked)) return "rows are selected";
    if (fields.some(dirty)) return "you are filling in a form";
    const active = document.activeElement;
    if (active && root.contains(active) && active.matches("input, select, textarea")) return "you are filling in a form";
    return "";
  };

  const status = (text, paused) => {
    for (const line of all("[data-live-status]")) {
      if (line.textContent !== text) line.textContent = text;
      line.hidden = text === "";
      line.classList.toggle("is-paused", paused);
    }
  };

  const pauseReason = () => all("[data-live-part]").map(busy).find((reason) => reason !== "") ?? "";

  const showStatus = () => {
    if (!every) return;
    const reason = pauseReason();
    if (gone) status("This page has changed. Reload it to go on.", true);
    else if (failures > 1) status("Not updating: no connection. Trying again.", true);
    else if (reason) status(`Updates paused while ${reason}.`, true);
    else status("Updates by itself.", false);
  };

  // Keeps the keyboard where it was: the same id, or the same link or button in the same place.
  const place = (root) => {
    const active = document.activeElement;
    if (!active || !root.contains(active)) return null;
    if (active.id) return `#${CSS.escape(active.id)}`;
    const same = all(active.tagName, root);
    return { tag: active.tagName, index: same.indexOf(active), text: active.textContent };
  };

  const restore = (root, where) => {
    if (!where) return;
    let target = null;
    if (typeof where === "string") target = root.querySelector(where);
    else {
      const same = all(where.tag, root);
      target = same.find((element) => element.textContent === where.text && element.getAttribute("href")) ?? same[where.index];
    }
    target?.focus({ preventScroll: true });
  };

  const replace = (fresh) => {
    for (const part of all("[data-live-part]")) {
      const next = fresh.getElementById(part.id);
      if (!next) {
        if (!pauseReason()) location.reload();
        return;
      }
      if (busy(part) || part.dataset.was === next.innerHTML) continue;
      const open = all("details[open][id]", part).map((element) => element.id);
      const where = place(part);
      part.dataset.was = next.innerHTML;
      part.innerHTML = next.innerHTML;
      for (const id of open) part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
      restore(part, where);
    }
    if (fresh.title) document.title = fresh.title;
    tick();
  };

  const refresh = async () => {
    if (running || gone) return;
    running = true;
    try {
      const response = await fetch(location.href, {
        headers: { "X-Refresh": "1" },
        credentials: "same-origin",
        cache: "no-store",
      });
      const at = performance.now();
      if (response.status >= 500 || response.status === 429) throw new Error(String(response.status));
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      failures = 0;
      setClock(Number(meta("now", fresh)), at);
      // Signed out, or moved: say so rather than jump away from what somebody may be reading.
      if (response.redirected || response.status >= 400) gone = true;
      else if (meta("build", fresh) === meta("build")) replace(fresh);
      else if (!pauseReason()) location.reload();
    } catch {
      failures += 1;
    } finally {
      running = false;
      showStatus();
      schedule();
    }
  };

  const schedule = (wait = every * Math.min(8, 2 ** failures)) => {
    clearTimeout(timer);
    if (every && !gone) timer = setTimeout(() => (document.hidden ? schedule() : refresh()), wait);
  };

  // At a deadline every customer would ask in the same instant; spread over three seconds.
  const refreshSoon = () => {
    if (every) schedule(1000 + Math.random() * 2000);
  };

  // A phone that slept, or a page that was gone back to: timers stood still, perhaps `performance.now()` too.
  const awake = () => {
    tick();
    if (every || document.querySelector("[data-deadline]")) refresh();
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) awake();
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) awake();
  });

  // ── rows ──

  // [data-select-all] ticks every [data-select] of its table; [data-selected-count] says how many.
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.matches?.("[data-select-all]")) {
      for (const row of all("[data-select]", box.closest("form") ?? document)) row.checked = box.checked;
    }
    const count = all("[data-select]:checked").length;
    for (const element of all("[data-selected-count]")) element.textContent = String(count);
    showStatus();
  });
  document.addEventListener("input", showStatus);

  // A second tap on the same button sends nothing more; the server would answer the same anyway.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent) event.preventDefault();
    else if (form.method === "post") {
      form.dataset.sent = "1";
      setTimeout(() => delete form.dataset.sent, 8000);
    }
  });

  for (const part of all("[data-live-part]")) part.dataset.was = part.innerHTML;
  tick();
  setInterval(tick, 250);
  showStatus();
  schedule();
})();
