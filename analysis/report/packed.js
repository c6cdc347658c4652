// The parts of the page that are unpacked when somebody asks for them.

const unpackedParts = new Map(); // id -> what it holds, once somebody asked

function unpacked(id) {
  if (!unpackedParts.has(id)) unpackedParts.set(id, unpack(byId(id).textContent.trim()));
  return unpackedParts.get(id);
}

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** The details of every cell. */
const details = () => unpacked("details");
