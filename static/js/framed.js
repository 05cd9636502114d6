// A header and what follows it, as app/responses.py frames them: {header, buffer, begin}, `begin` behind the header.
export async function fetchFramed(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  const buffer = await answer.arrayBuffer();
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  return { header, buffer, begin: 4 + size };
}
