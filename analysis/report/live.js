// While the page is served (--live): asks every moment whether something changed, and shows it in the view that is open.

const MOMENT = 2000; // milliseconds
let shownStamp = DATA.stamp ?? null;

async function watch() {
  for (;;) {
    await new Promise((done) => setTimeout(done, MOMENT));
    try {
      const now = await (await fetch("stamp")).text();
      if (now !== shownStamp) await refresh();
      byId("live").textContent = `Live: as of ${DATA.made.when}.`;
    } catch (error) {
      byId("live").textContent = "No longer live: the command that served this page has ended.";
    }
  }
}

/** New results in the page as it is: the address says what is shown, chosen and filtered. */
async function refresh() {
  const { data, details: packedDetails, evaluations } = await (await fetch("parts")).json();
  remember();
  Object.assign(DATA, data);
  shownStamp = data.stamp;
  byId("details").textContent = packedDetails;
  byId("evaluations").textContent = evaluations;
  unpackedParts.clear();
  keyedSettings.clear();
  fill();
  await reopen();
}

if (DATA.stamp) watch();
