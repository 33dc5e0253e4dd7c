// Many addresses as few words, as in the command line: "10.0.0.[3,7-9]", "fd00::1-fd00::9".
//
// The same rules as subord/client/folding.py, for addresses only; a test compares the two.

const ROOM = 60; // characters of a folded set in a line of text
const V4 = /^\d{1,3}(\.\d{1,3}){3}$/;
const V6 = /^[0-9a-f:]*:[0-9a-f:]*$/i;

function v6Number(address) {
  const [head, tail] = address.split("::");
  const groups = (text) => (text ? text.split(":") : []);
  const [first, last] = [groups(head), groups(tail)];
  const zeros = tail === undefined ? [] : new Array(Math.max(0, 8 - first.length - last.length)).fill("0");
  return [...first, ...zeros, ...last].reduce((sum, group) => sum * 65536n + BigInt(`0x${group || 0}`), 0n);
}

// A sorting key: IPv4 by number, then IPv6 by number, then everything else by text.
function keyOf(address) {
  if (V4.test(address)) return [0, BigInt(address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0))];
  if (V6.test(address)) return [1, v6Number(address)];
  return [2, address];
}

export function inOrder(addresses) {
  const keyed = [...new Set(addresses)].map((address) => [...keyOf(address), address]);
  keyed.sort((one, other) => one[0] - other[0] || (one[1] < other[1] ? -1 : 1));
  return keyed.map((each) => each[2]);
}

// [[first, last], ...] of sorted numbers.
function runs(numbers) {
  const found = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last && Number(number - last[1]) === 1) last[1] = number;
    else found.push([number, number]);
  }
  return found;
}

// Patterns of four sets of numbers are merged where they differ in one number only, the last one first.
function foldedV4(addresses) {
  let patterns = addresses.map((address) => address.split(".").map((part) => [Number(part)]));
  for (let index = 3; index >= 0; index--) {
    const same = new Map();
    for (const pattern of patterns) {
      const name = JSON.stringify(pattern.map((each, at) => (at === index ? null : each)));
      if (same.has(name)) same.get(name)[index].push(...pattern[index]);
      else same.set(name, pattern.map((each) => [...each]));
    }
    patterns = [...same.values()];
    for (const pattern of patterns) pattern[index].sort((one, other) => one - other);
  }
  const byLowest = (one, other) => {
    for (let at = 0; at < 4; at++) if (one[at][0] !== other[at][0]) return one[at][0] - other[at][0];
    return 0;
  };
  const part = (numbers) => {
    const texts = runs(numbers).map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
    return numbers.length === 1 ? texts[0] : `[${texts.join()}]`;
  };
  return patterns.sort(byLowest).map((pattern) => pattern.map(part).join("."));
}

function foldedV6(addresses) {
  const named = new Map(addresses.map((address) => [v6Number(address), address]));
  return runs([...named.keys()]).map(([first, last]) =>
    first === last ? named.get(first) : `${named.get(first)}-${named.get(last)}`,
  );
}

// All addresses in one word.
export function folded(addresses) {
  const ordered = inOrder(addresses);
  const of = (kind) => ordered.filter((address) => keyOf(address)[0] === kind);
  return [...foldedV4(of(0)), ...foldedV6(of(1)), ...of(2)].join();
}

// About ROOM characters: the first addresses, and how many more there are; `total` counts unnamed ones, too.
export function inShort(addresses, total = 0) {
  const ordered = inOrder(addresses);
  let shown = ordered.length;
  let text = folded(ordered);
  while (text.length > ROOM && shown > 1) {
    shown = Math.floor(shown / 2);
    text = folded(ordered.slice(0, shown));
  }
  const more = Math.max(ordered.length, total) - shown;
  return more > 0 ? `${text} and ${more} more` : text;
}

// ".25" for 10.0.0.25 beside 10.0.0.24.
export function beside(address, other) {
  const block = (text) => (V4.test(text) ? text.slice(0, text.lastIndexOf(".")) : null);
  return block(address) !== null && block(address) === block(other) ? address.slice(block(address).length) : address;
}
