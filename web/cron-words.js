// Cron expressions in words, for those that people write; others are left as they are.

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const NAMED = new Map([
  ["@yearly", "every year, on January 1 at 00:00"], ["@annually", "every year, on January 1 at 00:00"],
  ["@monthly", "every month, on day 1 at 00:00"], ["@weekly", "every Sunday at 00:00"],
  ["@daily", "every day at 00:00"], ["@midnight", "every day at 00:00"], ["@hourly", "every hour"],
]);

/** @param {string} text @param {string[]} names @param {number} first the number of the first name */
function nameOf(text, names, first) {
  const short = names.findIndex((name) => name.slice(0, 3).toLowerCase() === text.toLowerCase());
  return short >= 0 ? names[short] : /^\d+$/.test(text) ? (names[Number(text) - first] ?? text) : null;
}

/** @param {string} field @param {string[]} names @param {number} first */
function inWords(field, names, first) {
  const parts = field.split(",").map((part) => {
    const ends = part.split("-").map((end) => nameOf(end, names, first));
    if (ends.length > 2 || ends.includes(null)) return null;
    return ends.length === 2 ? `${ends[0]} to ${ends[1]}` : ends[0];
  });
  return parts.includes(null) ? null : parts.join(", ");
}

/** @param {string} n */
const two = (n) => n.padStart(2, "0");

// "*" → 1, "*/15" → 15; null where it is no interval: one that does not divide `all` begins anew with each hour or day.
/** @param {string} field @param {number} all */
function interval(field, all) {
  const step = field === "*" ? 1 : Number(/^\*\/(\d+)$/.exec(field)?.[1]);
  return all % step === 0 ? step : null;
}

/** @param {string} minute @param {string} hour */
function time(minute, hour) {
  const minutes = interval(minute, 60);
  const hours = interval(hour, 24);
  const isOne = /^\d+$/.test(minute);
  if (minutes && hours === 1) return minutes === 1 ? "every minute" : `every ${minutes} minutes`;
  if (isOne && hours === 1) return Number(minute) === 0 ? "every hour" : `every hour at minute ${minute}`;
  if (isOne && hours) return `every ${hours} hours at minute ${minute}`;
  if (isOne && /^\d+(,\d+)*$/.test(hour)) return `at ${hour.split(",").map((h) => `${two(h)}:${two(minute)}`).join(" and ")}`;
  return null;
}

/** "30 7 * * mon-fri" → "at 07:30, Monday to Friday"; null where there are no good words.
 * @param {string} text */
export function cronWords(text) {
  const fields = text.trim().split(/\s+/);
  if (fields.length === 1) return NAMED.get(fields[0].toLowerCase()) ?? null;
  if (fields.length !== 5) return null;
  const [minute, hour, day, month, weekday] = fields;
  const parts = [time(minute, hour)];
  if (day !== "*") parts.push(/^\d+(,\d+)*$/.test(day) ? `on day ${day.replaceAll(",", ", ")} of the month` : null);
  if (weekday !== "*") parts.push(day !== "*" ? null : inWords(weekday, DAYS, 0));
  if (month !== "*") parts.push(inWords(month, MONTHS, 1)?.replace(/^/, "in ") ?? null);
  if (parts.includes(null)) return null;
  return parts.join(", ");
}
