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
    lostAt = null; // what came while nobody listened is fetched now
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
  document.addEventListener("htmx:sseOpen", open);
  document.addEventListener("htmx:sseError", () => lost("reconnecting"));
  addEventListener("pagehide", () => { lostAt = lostAt || new Date(); }); // leaving is no loss to tell of
})();
