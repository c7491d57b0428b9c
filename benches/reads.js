// 8,000 reads in batches of 16, and five syncs, for benches/budgets.sh: reads.js FILE
const fs = require('fs')
async function go() {
    const file = await fs.promises.open(process.argv[2], 'r+')
    const buffers = Array.from({ length: 16 }, () => Buffer.alloc(4096))
    for (let n = 0; n < 500; n++) {
        await Promise.all(buffers.map((buffer, i) => file.read(buffer, 0, 4096, ((n * 16 + i) * 7919 % 4096) * 4096)))
        if (n % 100 == 0) await file.sync()
    }
    await file.close()
}
go()
