/* The one object: its parts share the slots and the filter in state.h, so they are one translation unit. */
#include "state.h"
#include "recording.h"
#include "follow.h"
#include "credit.h"
#include "ring.bpf.c"
#include "delivery.bpf.c"
#include "sched.bpf.c"
#include "interrupt.bpf.c"
#include "follow.bpf.c"
#include "aio.bpf.c"
#include "posix_aio.bpf.c"
#include "mode.bpf.c"
#include "block.bpf.c"
#include "credit.bpf.c"
#include "process.bpf.c"
#include "function.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
