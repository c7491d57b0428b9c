// Bursts of asynchronous and of synchronous calls, for benches/estimates.sh: bursts.js FILE SECONDS
const fs = require('fs'), file = process.argv[2], end = Date.now() + 1000 * Number(process.argv[3])
const stat = () => new Promise(done => fs.stat(file, done))
async function go() {
    while (Date.now() < end) {
        await Promise.all(Array.from({ length: 32 }, stat))
        for (let i = 0; i < 200; i++) fs.statSync(file)
        await new Promise(done => setTimeout(done, Math.random() * 10))
    }
}
go()
