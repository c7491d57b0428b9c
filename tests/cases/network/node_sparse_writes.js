// libuv's SQPOLL ring for a small write every 5 ms: the kernel thread (idle 10 ms) never sleeps.
// After libuv/libuv#4089, #4308; nodejs/node#51875.
// Run: UV_USE_IO_URING=1 node node_sparse_writes.js [FILE]     (Node 20; with UV_USE_IO_URING=0 the thread pool)
const fs = require('fs');
let n = 0;
const h = fs.openSync(process.argv[2] || 'node_sparse_writes.dat', 'w');
(function next() { if (n === 200) { const u = process.resourceUsage(); console.log(`truth: ${n} writes; user ${u.userCPUTime / 1e3 | 0} ms, system ${u.systemCPUTime / 1e3 | 0} ms`); return; } n++; fs.write(h, 'hello\n', () => setTimeout(next, 5)); })();
