// Says whether the page is live. Everything else is htmx: news arrives, the changing part is fetched and morphed in.
(() => {
  let lostAt = null;
  const show = (state, word) => {
    const live = document.getElementById("live");
    if (!live || live.dataset.state === state) return;
    live.dataset.state = state;
    live.querySelector(".word").textContent = word;
  };
  const open = () => {
    show("open", "live");
    document.getElementById("lost").hidden = true;
    if (lostAt === null) return;
    lostAt = null; // fetch the changes missed while disconnected
    const part = document.getElementById("part") || document.getElementById("newer");
    if (part) htmx.trigger(part, "refresh");
  };
  const lost = (word) => {
    show("lost", word);
    if (lostAt !== null) return;
    lostAt = new Date();
    const notice = document.getElementById("lost");
    const time = notice.querySelector("time");
    time.dateTime = lostAt.toISOString();
    time.textContent = lostAt.toISOString().slice(11, 19) + " UTC";
    notice.hidden = false;
  };
  const failed = (word) => {
    const stale = document.getElementById("stale");
    stale.textContent = word;
    stale.hidden = !word;
  };
  const answered = (event) => {
    const { xhr, elt } = event.detail;
    if (!elt.classList.contains("replay")) return;
    let said = {};
    try { said = JSON.parse(xhr.responseText); } catch { /* no answer at all */ }
    const place = document.getElementById("answer");
    place.textContent = said.message || said.detail || "The server did not answer.";
    place.className = "answer " + (xhr.status === 200 ? "good" : "bad");
    if (xhr.status === 200 && !said.dry_run) htmx.trigger("#part", "refresh");
  };
  const changeBlock = async (event) => {
    const form = event.target.closest("form.blocking");
    if (!form) return;
    event.preventDefault();
    const blocks = form.dataset.method === "PUT";
    const request = { method: form.dataset.method, headers: { "Content-Type": "application/json" } };
    if (blocks) request.body = JSON.stringify({ reason: form.elements.reason.value });
    const place = document.getElementById("answer");
    let said = {}, well = false;
    try {
      const response = await fetch(`/v1/nodes/${form.dataset.node}/block`, request);
      well = response.ok;
      said = await response.json();
      if (said.code === "not_found") said.detail = "This process has no ingestion: use slackwater block with --server.";
    } catch { /* no answer at all */ }
    place.textContent = said.message || said.detail || "The server did not answer.";
    place.className = "answer " + (well ? "good" : "bad");
    if (well) setTimeout(() => location.reload(), 1500); // by then every service has read the change
  };
  document.addEventListener("submit", changeBlock);
  document.addEventListener("htmx:afterRequest", answered);
  document.addEventListener("htmx:afterOnLoad", () => failed(""));
  document.addEventListener("htmx:responseError", (event) => {
    if (!event.detail.elt.classList.contains("replay")) failed("The server cannot read its data now. The page may be out of date.");
  });
  document.addEventListener("htmx:sseOpen", open);
  document.addEventListener("htmx:sseError", () => lost("reconnecting"));
  addEventListener("pagehide", () => { lostAt = lostAt || new Date(); }); // leaving is no loss to tell of
})();
