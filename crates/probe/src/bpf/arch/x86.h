/* x86-64: how a thread entered the kernel, from the state that the entry code leaves (arch/x86/entry). See ../arch.h. */
#ifndef IOTRAIL_ARCH_X86_H
#define IOTRAIL_ARCH_X86_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	unsigned long r15; /* the first member: any word can be read as one */
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long bx;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si; /* second argument of a system call */
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
};
#pragma clang attribute pop

/* The program's registers distinguish one interrupt or exception from the previous one. */
static __always_inline __u64 entry_id(struct pt_regs *regs)
{
	return regs->ip ^ regs->sp << 1 ^ regs->ax << 2 ^ regs->cx << 3 ^ regs->dx << 5 ^ regs->si << 7 ^ regs->di << 11 ^
	       regs->r8 << 13 ^ regs->r9 << 17;
}

#define NR_pread64 17
#define NR_pwrite64 18
#define NR_io_setup 206
#define NR_io_getevents 208
#define NR_io_submit 209
#define NR_io_pgetevents 333
#define NR_io_uring_enter 426
#define NR_futex 202
#define X86_ENOSYS 38

/* Number in the 32-bit table (a 32-bit program's call, or int 0x80) if it differs from the 64-bit number. Not x32's bit (30). */
#define NR_I386 (1 << 29)
#define NR_I386_pread64 (NR_I386 | 180)
#define NR_I386_pwrite64 (NR_I386 | 181)
#define NR_I386_io_setup (NR_I386 | 245)
#define NR_I386_io_getevents (NR_I386 | 247)
#define NR_I386_io_submit (NR_I386 | 248)
#define NR_I386_io_pgetevents (NR_I386 | 385)
#define NR_I386_io_pgetevents_time64 (NR_I386 | 416)
/* arch/x86/include/asm/thread_info.h: set from the entry of such a call until the return to user mode. */
#define TS_COMPAT 2

static __always_inline bool calls_as_i386(struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

/* The number with its table's bit. io_uring's calls have the same number in both tables. */
static __always_inline long call_number(struct task_struct *task, long nr)
{
	return nr >= 0 && nr != NR_io_uring_enter && calls_as_i386(task) ? nr | NR_I386 : nr;
}

/* A call that also returns in the new thread, with 0. */
static __always_inline bool makes_a_thread(long nr)
{
	return nr == 56 || nr == 57 || nr == 58 || nr == 435 /* clone, fork, vfork, clone3 */ || nr == (NR_I386 | 120) ||
	       nr == (NR_I386 | 2) || nr == (NR_I386 | 190) || nr == (NR_I386 | 435);
}

/* Maps a native aio call to its 64-bit number; other numbers are unchanged. */
static __always_inline long aio_number(long nr)
{
	switch (nr) {
	case NR_I386_io_setup:
		return NR_io_setup;
	case NR_I386_io_submit:
		return NR_io_submit;
	case NR_I386_io_getevents:
		return NR_io_getevents;
	case NR_I386_io_pgetevents:
	case NR_I386_io_pgetevents_time64:
		return NR_io_pgetevents;
	default:
		return nr;
	}
}

/* entry_64.S sets ax to -ENOSYS before a system call runs, and to its result afterwards. A call that returns -ENOSYS looks
 * unfinished; it delivers no completion. For interrupts and exceptions orig_ax is -1, because the entry code first removes
 * an error code.
 */
static __always_inline void entry_of(struct task_struct *task, struct entry *e, bool want_address)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	e->nr = call_number(task, regs->orig_ax);
	e->finished = (long)regs->ax != -X86_ENOSYS;
	e->address = 0;
	if (!want_address)
		return;
	/* The entry code's first call pushes its return address just below the saved registers. */
	void *below = (void *)regs - sizeof(e->address);
	if (bpf_ksym_exists(bpf_rdonly_cast))
		e->address = bpf_core_cast(below, struct pt_regs)->r15;
	else /* before 6.2 */
		bpf_probe_read_kernel(&e->address, sizeof(e->address), below);
}

/* An interrupt's entry address identifies it. */
static __always_inline bool left_user_mode_by_this(struct task_struct *task)
{
	return true;
}

/* Number of requests that the current io_uring_enter was asked to submit; 0: none is running. */
static __always_inline __u32 enter_batch(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (regs->orig_ax != NR_io_uring_enter || (long)regs->ax != -X86_ENOSYS)
		return 0;
	return calls_as_i386(task) ? regs->cx : regs->si;
}

static __always_inline long syscall_nr(struct pt_regs *regs)
{
	return regs->orig_ax;
}

/* The first three arguments of a function. */
static __always_inline __u64 argument(struct pt_regs *regs, int n)
{
	switch (n) {
	case 1:
		return regs->di;
	case 2:
		return regs->si;
	default:
		return regs->dx;
	}
}

/* The six arguments of a system call; valid until its exit. */
static __always_inline __u64 call_argument(struct pt_regs *regs, int n)
{
	return n < 4 ? argument(regs, n) : n == 4 ? regs->r10 : n == 5 ? regs->r8 : regs->r9;
}

/* The same for a call in the 32-bit table. */
static __always_inline __u64 argument_i386(struct pt_regs *regs, int n)
{
	switch (n) {
	case 1:
		return (__u32)regs->bx;
	case 2:
		return (__u32)regs->cx;
	case 3:
		return (__u32)regs->dx;
	default:
		return (__u32)regs->si;
	}
}

/* The flag that the thread has, of the two that a switch may set for a thread with rseq(2) and that are cleared on the way
 * to user mode: bit 0 with the shared flag layout, previously bit 1. In the earlier layout bit 0 is set while the thread is
 * traced by ptrace, and stays set. Since 6.19 rseq has its own flag, bit 11.
 */
static __always_inline __u32 gone_in_user_mode(__u32 flags)
{
	if (bpf_core_type_exists(struct rseq_event))
		return flags & 1 << 11;
	return flags & 1 ? 1 : flags & 2;
}

/* The timer and IPIs have their own vectors and tracepoints, so all lines belong to devices. */
static __always_inline enum line_kind kind_of_line(int irq, struct irqaction *action)
{
	return LINE_OF_DEVICE;
}

/* include/uapi/asm/ptrace.h and linux/bpf_perf_event.h: a sampling program's context, a stable layout. */
struct bpf_perf_event_data {
	unsigned long before[16]; /* r15 … orig_rax */
	unsigned long ip, cs, flags, sp, ss;
	__u64 sample_period;
	__u64 addr;
};
#define USER_MODE(ctx) (((ctx)->cs & 3) == 3)

/* Call instructions before a return address: near (e8), through a register, through memory with or without displacement. */
static __always_inline bool follows_call(const __u8 *before)
{
	if (before[2] == 0xe8)
		return true;
	if (before[5] == 0xff && ((before[6] & 0xf8) == 0xd0 || (before[6] & 0xf8) == 0x10))
		return true;
	if (before[4] == 0xff && ((before[5] & 0xf8) == 0x50 || before[5] == 0x14))
		return true;
	if (before[3] == 0xff && before[4] == 0x54)
		return true;
	return before[1] == 0xff && (before[2] == 0x15 || (before[2] & 0xf8) == 0x90);
}

#define STUB_PROBES 6
/* Maximum distance between mapped libraries. */
#define NEAR_BYTES (128ull << 20)

static __always_inline struct user_registers user_registers_of(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return (struct user_registers){ .ip = regs->ip, .sp = regs->sp, .fp = regs->bp };
}

static int stub_word(__u32 i, struct stack_room **context)
{
	struct stack_room *room = *context;
	__u64 word = room->words[i & (STUB_WORDS - 1)];
	__u8 before[8] = {};

	if (room->regs.sp + i * sizeof(__u64) == room->regs.fp || room->found >= STUB_CALLERS)
		return 1;
	bool near = word - room->regs.ip + NEAR_BYTES < 2 * NEAR_BYTES;
	if (!near && word - room->code >= room->end - room->code)
		return 0;
	if (room->probes++ >= STUB_PROBES)
		return 1;
	if (!bpf_probe_read_user(before, 7, (void *)(word - 7)) && follows_call(before))
		room->stack.callers[room->found++ & (STUB_CALLERS - 1)] = word;
	return 0;
}

/* Return addresses of system-call stubs, which have no frame: words between the stack pointer and the frame pointer that
 * follow a call instruction. If the function has a frame, such a word may be left from an earlier call. Only words near
 * known code are looked up, because reading unmapped memory takes 1 µs or more.
 */
static __always_inline void stub_callers(struct task_struct *task, struct stack_room *room)
{
	room->code = BPF_CORE_READ(task, mm, start_code);
	room->end = BPF_CORE_READ(task, mm, end_code);
	room->found = room->probes = 0;
	if (!bpf_probe_read_user(room->words, sizeof(room->words), (void *)room->regs.sp))
		bpf_loop(STUB_WORDS, stub_word, &room, 0);
}

#endif
