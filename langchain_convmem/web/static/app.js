// What a page does: says, follows and stops replies, opens panels and dialogs, takes in files.
// Text that comes from the server while a reply is written goes into the page as text, never as markup.
"use strict";
(() => {
  const find = (selector, root = document) => root.querySelector(selector);
  const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];
  const { user, thread } = document.body.dataset;
  const messages = find("#messages");
  const channel = "BroadcastChannel" in window ? new BroadcastChannel("convmem") : null;
  let busy = false;

  // -- asking the server --------------------------------------------------------------------------
  const address = (path, more = {}) =>
    `${path}?${new URLSearchParams(thread ? { user, thread, ...more } : { user, ...more })}`;

  async function post(path, fields = {}) {
    const body = new URLSearchParams({ user, ...(thread ? { thread } : {}), ...fields });
    const answer = await fetch(path, { method: "POST", body });
    if (!answer.ok) throw new Error(await answer.text());
    return answer;
  }

  // Each target is a source of its own: of what one source asks for while it waits, htmx keeps only the last.
  const load = (path, target) => htmx.ajax("GET", path, { target, source: target, swap: "innerHTML" });

  function showToast(text, action, run) {
    const toast = document.createElement("div");
    toast.className = "toast";
    toast.append(text);
    if (action) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "link";
      button.textContent = action;
      button.addEventListener("click", () => { toast.remove(); run(); });
      toast.append(button);
    }
    find("#toasts").append(toast);
    setTimeout(() => toast.remove(), action ? 12000 : 6000);
  }
  const attempt = (run) => async (...given) => {
    try { return await run(...given); } catch (error) { showToast(error.message || "The server is not responding."); }
  };

  // -- times, in the reader's zone ----------------------------------------------------------------
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const calendar = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
  function localizeTimes(root) {
    const today = new Date().toDateString();
    for (const time of findAll("time:not([data-local])", root)) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.valueOf())) continue;
      time.title = at.toLocaleString();
      time.textContent = at.toDateString() === today ? clock.format(at) : `${calendar.format(at)}, ${clock.format(at)}`;
      time.dataset.local = "";
    }
  }

  // -- the thread ---------------------------------------------------------------------------------
  const scroll = find("#scroll");
  const isAtEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120;
  const goToEnd = () => { scroll.scrollTop = scroll.scrollHeight; };

  // A picture grows when it has come: who was at the end stays there.
  messages?.addEventListener("load", ({ target }) => {
    if (scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight - target.offsetHeight < 160) goToEnd();
  }, true);

  async function reload({ keepPlace }) {
    if (!busy) { // a reply that is being shown reloads the messages at its end
      isBehind = false;
      const stay = keepPlace && !isAtEnd();
      const top = scroll.scrollTop;
      await load(address("/messages", { window: messages.dataset.window }), "#messages");
      if (stay) scroll.scrollTop = top; else goToEnd();
    }
    const title = find("#threads a[aria-current] bdi");
    await load(address("/threads"), "#threads");
    const now = find("#threads a[aria-current] bdi") || title;
    if (now && find("#title")) {
      find("#title").textContent = now.textContent;
      document.title = `${now.textContent} · convmem`;
    }
  }

  // One reload at a time: what is asked for meanwhile is one more, which sees all that was said until then.
  let reloading = null, next = null, isBehind = false;
  function refresh({ keepPlace = false } = {}) {
    next = { keepPlace: keepPlace && (next?.keepPlace ?? true) };
    reloading ??= (async () => {
      try {
        while (next) {
          const now = next;
          next = null;
          await reload(now);
        }
      } finally {
        reloading = next = null;
      }
    })();
    return reloading;
  }

  // What happened elsewhere leaves alone what is typed or shown here; it is caught up with at the end of that.
  function catchUp() {
    if (find(".editor")) isBehind = true;
    else if (!busy) attempt(refresh)({ keepPlace: true });
  }

  function addMessage(role, text) {
    const article = document.createElement("article");
    article.className = `message ${role}`;
    const header = document.createElement("header");
    const speaker = document.createElement("bdi");
    speaker.className = "speaker";
    speaker.textContent = role === "user" ? "You" : "Assistant";
    header.append(speaker);
    const body = document.createElement("div");
    body.className = "body";
    body.dir = "auto";
    if (role === "user") {
      const paragraph = document.createElement("p");
      paragraph.className = "verbatim";
      paragraph.textContent = text;
      body.append(paragraph);
    } else {
      body.textContent = text;
    }
    article.append(header, body);
    messages.append(article);
    return article;
  }

  function setBusy(on) {
    busy = on;
    find(".composer .send:not(.stop)").hidden = on;
    find(".composer .stop").hidden = !on;
    messages.setAttribute("aria-busy", String(on));
  }

  // Reads out whole sentences: words one by one cannot be listened to.
  function makeSpeaker() {
    const announcer = find("#announcer");
    announcer.textContent = "";
    let waiting = "";
    const say = (text) => {
      if (!text.trim()) return;
      const line = document.createElement("p");
      line.textContent = text;
      announcer.append(line);
    };
    return {
      add(text) {
        waiting += text;
        const end = waiting.search(/[.!?:。！？\n](?=\s|$)[^]*$/);
        const cut = Math.max(waiting.lastIndexOf(". "), waiting.lastIndexOf("\n"), waiting.lastIndexOf("? "), waiting.lastIndexOf("! "));
        if (end >= 0 && cut > 40) { say(waiting.slice(0, cut + 1)); waiting = waiting.slice(cut + 1); }
      },
      finish() { say(waiting); waiting = ""; },
    };
  }

  async function* readEvents(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      let end;
      while ((end = buffer.indexOf("\n\n")) >= 0) {
        const event = { name: "", data: null };
        for (const line of buffer.slice(0, end).split("\n")) {
          if (line.startsWith("event: ")) event.name = line.slice(7);
          if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
        }
        buffer = buffer.slice(end + 2);
        yield event;
      }
    }
  }

  async function follow(ask, said) {
    const live = addMessage("assistant", "");
    live.classList.add("is-live");
    const body = find(".body", live);
    const speaker = makeSpeaker();
    goToEnd();
    setBusy(true);
    let last = null;
    // What comes between two frames is shown at once: a page is laid out once a frame, not a word.
    let waiting = "";
    const show = () => {
      if (!waiting) return;
      const stick = isAtEnd();
      body.append(waiting);
      waiting = "";
      if (stick) goToEnd();
    };
    try {
      for await (const event of readEvents(await ask())) {
        if (event.name === "text") {
          if (!waiting) requestAnimationFrame(show);
          waiting += event.data.text;
          speaker.add(event.data.text);
        } else last = event;
      }
    } catch (error) {
      last = { name: "failed", data: { failure: error.message || "The connection was lost." } };
    }
    show();
    speaker.finish();
    setBusy(false);
    channel?.postMessage({ user, thread, kind: "changed" });
    const isLost = last === null || (last.name === "failed" && !last.data.question);
    await attempt(refresh)();
    if (last?.name === "failed") showToast(last.data.failure);
    else if (last === null) showToast("The server stopped. The text so far is kept.");
    // What never reached the log goes back into the field.
    if (said && (isLost || last?.name === "stopped") && !findAll("[data-role=user] .body").some((one) => one.textContent.trim() === said.trim())) {
      if (!find("#text").value) find("#text").value = said;
    }
  }

  async function say(text, id, files = []) {
    const sent = { text, ...(id ? { id } : {}), ...(files.length ? { files: JSON.stringify(files) } : {}) };
    const asked = post("/say", sent); // first: the page is drawn while it is on its way
    history.replaceState(null, "", address("/chat"));
    findAll(".welcome, .notice", messages).forEach((one) => one.remove());
    addMessage("user", [text, ...files.map((file) => `[${file.name}]`)].join("\n\n").trim());
    channel?.postMessage({ user, thread, kind: "began" });
    await follow(() => asked, text);
  }

  async function answerAgain(message) {
    const article = findAll("[data-message]").find((one) => one.dataset.message === message);
    findAll(".notice", messages).forEach((one) => one.remove());
    removeAfter(article);
    channel?.postMessage({ user, thread, kind: "began" });
    await follow(() => post("/again", { message }));
  }

  function removeAfter(article) {
    while (article?.nextElementSibling) article.nextElementSibling.remove();
  }

  async function followLive() {
    const mark = find("#live-mark");
    if (!mark || busy) return;
    mark.remove();
    busy = true; // no second reply is followed meanwhile
    const isThere = findAll("[data-message]").some((one) => one.dataset.message === mark.dataset.question);
    if (!isThere) addMessage("user", mark.dataset.text);
    let answer;
    try { answer = await fetch(address("/live")); } finally { busy = false; }
    if (answer.status === 204) await refresh({ keepPlace: true });
    else await follow(() => answer);
  }

  async function edit(article) {
    const { message } = article.dataset;
    const answer = await fetch(address("/source", { message }));
    if (!answer.ok) throw new Error(await answer.text());
    const { text } = await answer.json();
    const form = document.createElement("form");
    form.className = "editor";
    const field = document.createElement("textarea");
    field.value = text;
    field.dir = "auto";
    field.setAttribute("aria-label", "Edit your message");
    const actions = document.createElement("div");
    actions.className = "actions";
    const cancel = document.createElement("button");
    cancel.type = "button";
    cancel.textContent = "Cancel";
    const save = document.createElement("button");
    save.className = "primary";
    save.textContent = "Ask again";
    actions.append(cancel, save);
    form.append(field, actions);
    const hidden = [...article.children];
    hidden.forEach((one) => { one.hidden = true; });
    article.append(form);
    field.focus();
    const leave = () => {
      form.remove();
      hidden.forEach((one) => { one.hidden = false; });
      find('[data-do="edit"]', article)?.focus();
      if (isBehind) catchUp();
    };
    cancel.addEventListener("click", leave);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); leave(); }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const now = field.value;
      if (!now.trim() || busy) return;
      removeAfter(article);
      article.remove();
      say(now, message);
    });
  }

  // -- the composer -------------------------------------------------------------------------------
  const attached = [];
  const readAs = (file, how) => new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(new Error(`${file.name} cannot be read.`)));
    reader[how](file);
  });
  const attach = attempt(async (files) => {
    for (const file of files) {
      if (file.size > 8e6) throw new Error(`${file.name} is larger than 8 MB.`);
      const isBinary = file.type.startsWith("image/") || file.type === "application/pdf";
      const data = isBinary ? (await readAs(file, "readAsDataURL")).split(",")[1] : await readAs(file, "readAsText");
      if (!isBinary && data.includes("\u0000")) throw new Error(`${file.name} is not text, a PDF or a picture.`);
      attached.push({ name: file.name || "picture", type: isBinary ? file.type : "text", data });
      showAttached();
    }
  });
  function showAttached() {
    find("#attached").replaceChildren(...attached.map((file, number) => {
      const item = document.createElement("li");
      const name = document.createElement("bdi");
      name.textContent = file.name;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "link";
      button.textContent = "Remove";
      button.setAttribute("aria-label", `Remove ${file.name}`);
      button.addEventListener("click", () => { attached.splice(number, 1); showAttached(); find("#text").focus(); });
      item.append(name, " ", button);
      return item;
    }));
  }
  const composer = find("#composer");
  if (composer) {
    const field = find("#text");
    const send = () => {
      const text = field.value;
      if (busy || !(text.trim() || attached.length)) return;
      field.value = "";
      say(text, undefined, attached.splice(0));
      showAttached();
    };
    field.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length) { event.preventDefault(); attach([...event.clipboardData.files]); }
    });
    composer.addEventListener("submit", (event) => { event.preventDefault(); send(); });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
      if (event.key === "ArrowUp" && !field.value && !busy) {
        const own = findAll(".message.user[data-message]").pop();
        if (own) { event.preventDefault(); attempt(edit)(own); }
      }
    });
    const here = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (here) { here.classList.add("is-here"); here.scrollIntoView({ block: "center" }); } else goToEnd();
    if (window.matchMedia("(hover: hover)").matches) field.focus({ preventScroll: true });
    followLive();
  }

  // -- panel, dialog, sidebar ---------------------------------------------------------------------
  const panel = find("#panel"), dialog = find("#dialog"), sidebar = find("#sidebar");
  let opener = null;

  function openPanel() {
    if (!panel) return;
    find("#panel-title").textContent = find("[data-title]", panel)?.dataset.title || "Details";
    panel.hidden = false;
    find("#panel-title").focus();
  }
  function closePanel() {
    if (!panel || panel.hidden) return false;
    panel.hidden = true;
    (opener?.isConnected ? opener : find("#text"))?.focus();
    return true;
  }
  function openDialog() {
    if (!dialog.open) dialog.showModal();
    find("#dialog-body input:not([type=hidden]), #dialog-body .primary", dialog)?.focus();
  }
  function setSidebar(on) {
    sidebar.classList.toggle("is-open", on);
    find('[data-do="open-sidebar"]')?.setAttribute("aria-expanded", String(on));
    (on ? find('[data-do="close-sidebar"]', sidebar) : find('[data-do="open-sidebar"]'))?.focus();
  }
  function showHelp() {
    find("#dialog-body").replaceChildren(find("#help").content.cloneNode(true));
    openDialog();
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target?.id === "panel-body") opener = event.target;
    if (event.target.dataset?.window && messages) messages.dataset.window = event.target.dataset.window;
    event.target.closest?.(".menu")?.removeAttribute("open");
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const { target } = event.detail;
    localizeTimes(target);
    if (target.id === "panel-body") openPanel();
    if (target.id === "dialog-body") openDialog();
    if (target.id === "messages") followLive();
  });
  document.addEventListener("htmx:responseError", (event) => showToast(event.detail.xhr.responseText || "That did not work."));
  document.addEventListener("htmx:sendError", () => showToast("The server is not responding."));

  // -- what buttons do ----------------------------------------------------------------------------
  const articleOf = (button) => button.closest("[data-message]");
  const actions = {
    stop: () => post("/stop"),
    attach: () => find("#attach").click(),
    again: (button) => busy || answerAgain(button.dataset.message),
    edit: (button) => busy || edit(articleOf(button)),
    copy: async (button) => {
      const answer = await fetch(address("/source", { message: articleOf(button).dataset.message }));
      await navigator.clipboard.writeText((await answer.json()).text);
      showToast("Copied.");
    },
    fork: async (button) => {
      const answer = await post("/fork", { message: articleOf(button).dataset.message });
      location.assign((await answer.json()).url);
    },
    undo: async () => {
      const { undone } = await (await post("/undo")).json();
      await refresh();
      announceChange();
      if (undone) showToast("Undone.", "Restore", attempt(actions.redo));
      else showToast("There is nothing to undo.");
    },
    redo: async () => { await post("/redo"); await refresh(); announceChange(); },
    clear: async () => {
      await post("/clear");
      await refresh();
      announceChange();
      showToast("The conversation starts over.", "Restore", attempt(actions.redo));
    },
    archive: async (button) => {
      await post("/archive", { archived: button.dataset.archived });
      announceChange();
      location.reload();
    },
    "undo-summary": async () => {
      await post("/summaries/undo");
      await load(address("/summaries"), "#panel-body");
      await refresh({ keepPlace: true });
    },
    decide: async (button) => {
      const { verdict, item } = button.dataset;
      await post("/profile", { verdict, item });
      await load(address("/profile"), "#panel-body");
    },
    theme: () => {
      const root = document.documentElement;
      const order = ["auto", "light", "dark"];
      const next = order[(order.indexOf(root.dataset.theme) + 1) % order.length];
      root.dataset.theme = next;
      document.cookie = `convmem_theme=${next}; Path=/; Max-Age=31536000; SameSite=Strict`;
      showToast({ auto: "Light or dark, as your device prefers.", light: "Light.", dark: "Dark." }[next]);
    },
    help: showHelp,
    "open-sidebar": () => setSidebar(true),
    "close-sidebar": () => setSidebar(false),
    "close-panel": closePanel,
    "close-dialog": () => dialog.close(),
    "after-forget": () => dialog.close(),
  };
  function announceChange() { channel?.postMessage({ user, thread, kind: "changed" }); }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-do]");
    const menu = find(".menu[open]");
    if (menu && (!menu.contains(event.target) || button)) menu.removeAttribute("open");
    if (button) attempt(async () => actions[button.dataset.do](button))();
  });

  dialog?.addEventListener("close", () => {
    const receipt = find("#receipt", dialog);
    if (!receipt) return;
    receipt.remove();
    announceChange();
    if (receipt.dataset.scope === "message") attempt(refresh)({ keepPlace: true });
    else location.assign(receipt.dataset.scope === "user" ? "/" : `/chat?${new URLSearchParams({ user })}`);
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const fields = () => Object.fromEntries(new FormData(form));
    if (form.id === "rename") {
      event.preventDefault();
      attempt(async () => { await post("/rename", fields()); dialog.close(); await refresh({ keepPlace: true }); announceChange(); })();
    } else if (form.id === "settings") {
      event.preventDefault();
      attempt(async () => {
        const { recall } = await (await post("/settings", fields())).json();
        find("#recall-state span").textContent = `Recall ${recall ? "on" : "off"}`;
        showToast("Saved for this conversation.");
      })();
    } else if (form.id === "forget") {
      event.preventDefault();
      attempt(async () => {
        const answer = await post("/forget", fields());
        // Made by our own template, in which all that was said is escaped.
        find("#dialog-body").innerHTML = await answer.text();
        find("#dialog-body .primary").focus();
      })();
    }
  });

  // -- keys ---------------------------------------------------------------------------------------
  const keys = {
    KeyN: () => find('[data-shortcut="new"]')?.click(),
    KeyK: () => (find("#query") || find("#find"))?.focus(),
    KeyM: () => findAll(".why-button").pop()?.click(),
    KeyR: () => findAll('[data-do="again"]').pop()?.click(),
    KeyZ: () => attempt(actions.undo)(),
    KeyI: () => find("#text")?.focus(),
    KeyH: showHelp,
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !dialog?.open) {
      if (find(".menu[open]")) find(".menu[open]").removeAttribute("open");
      else if (busy) attempt(actions.stop)();
      else if (!closePanel() && sidebar?.classList.contains("is-open")) setSidebar(false);
    }
    if (event.altKey && !event.ctrlKey && !event.metaKey && keys[event.code] && panel) {
      event.preventDefault();
      keys[event.code]();
    }
  });

  // -- other tabs, and pages that come back -------------------------------------------------------
  channel?.addEventListener("message", ({ data }) => {
    if (data.user !== user || busy || !panel) return;
    if (data.thread !== thread || !messages) { load(address("/threads"), "#threads"); return; }
    setTimeout(catchUp, data.kind === "began" ? 150 : 0);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && messages) catchUp();
  });

  // -- files --------------------------------------------------------------------------------------
  const count = new Intl.NumberFormat();
  function showImport(name) {
    const item = document.createElement("li");
    const label = document.createElement("span");
    const title = document.createElement("bdi");
    title.textContent = name;
    const state = document.createElement("span");
    state.className = "quiet";
    label.append(title, " ", state);
    const bar = document.createElement("progress");
    bar.max = 1;
    bar.setAttribute("aria-label", `Import of ${name}`);
    item.append(label, bar);
    find("#imports").append(item);
    return { item, bar, tell: (text) => { state.textContent = text; } };
  }
  function upload(file, row) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", `/import?${new URLSearchParams({ user, name: file.name })}`);
      request.upload.addEventListener("progress", (event) => {
        row.bar.value = event.loaded / event.total;
        row.tell(`sent ${Math.round((100 * event.loaded) / event.total)} %`);
      });
      request.addEventListener("load", () =>
        request.status === 200 ? resolve(JSON.parse(request.responseText)) : reject(new Error(request.responseText)));
      request.addEventListener("error", () => reject(new Error("The server is not responding.")));
      request.send(file);
    });
  }
  async function importFile(file) {
    const row = showImport(file.name);
    try {
      let job = await upload(file, row);
      while (job.state === "reading" || job.state === "storing") {
        if (job.total) row.bar.value = job.done / job.total; else row.bar.removeAttribute("value");
        const left = job.left_s === null ? "" : `, ${count.format(job.rate)} a second, ${Math.ceil(job.left_s)} s left`;
        row.tell(job.total ? `${count.format(job.done)} of ${count.format(job.total)}${left}` : "being read");
        await new Promise((resolve) => setTimeout(resolve, 250));
        job = await (await fetch(`/import/job?${new URLSearchParams({ user, job: job.id })}`)).json();
      }
      row.bar.remove();
      if (job.state === "failed") throw new Error(job.failure);
      row.tell(`${count.format(job.threads)} conversations, ${count.format(job.added)} new messages, ${count.format(job.known)} known already`);
      if (job.skipped_count) {
        const list = document.createElement("ul");
        for (const reason of job.skipped) { const one = document.createElement("li"); one.textContent = reason; list.append(one); }
        row.item.append(list);
      }
      announceChange();
      load(address("/threads"), "#threads");
    } catch (error) {
      row.bar.remove();
      row.item.classList.add("has-failed");
      row.tell(error.message);
    }
  }
  async function importFiles(files) {
    if (!find("#imports")) await load(`/import?${new URLSearchParams({ user })}`, "#dialog-body");
    for (const file of files) await importFile(file);
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "files") importFiles([...event.target.files]);
    if (event.target.id === "attach") { attach([...event.target.files]); event.target.value = ""; find("#text").focus(); }
  });
  if (panel) {
    let depth = 0;
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    const setDragging = (on) => document.body.classList.toggle("is-dragging", on);
    document.addEventListener("dragenter", (event) => { if (hasFiles(event)) { depth += 1; setDragging(true); } });
    document.addEventListener("dragleave", (event) => { if (hasFiles(event)) { depth -= 1; setDragging(depth > 0); } });
    document.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
    document.addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      depth = 0;
      setDragging(false);
      importFiles([...event.dataTransfer.files]);
    });
  }

  localizeTimes(document);
  document.documentElement.dataset.ready = "";
})();
