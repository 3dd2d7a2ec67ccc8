// SPDX-License-Identifier: MIT
// Sort a list; the result goes to the channel, console.log stays free.
const fs = require("fs");

const { items } = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(`sorting ${items.length} items`);
const text = Buffer.from(JSON.stringify({ status: "success", output: { sorted: [...items].sort() } }));
fs.writeSync(Number(process.env.BRIG_RESULT_FD), Buffer.concat([Buffer.from(`${text.length}\n`), text]));
