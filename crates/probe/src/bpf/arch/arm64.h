/* arm64: how a thread entered the kernel, from the state that the entry code leaves (arch/arm64/kernel/entry.S,
 * entry-common.c). See ../arch.h.
 */
#ifndef IOTRAIL_ARCH_ARM64_H
#define IOTRAIL_ARCH_ARM64_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	__u64 regs[31]; /* the first member: any word can be read as one */
	__u64 sp;
	__u64 pc;
	__u64 pstate;
	__u64 orig_x0; /* first argument of a system call, overwritten by its result */
	__s32 syscallno;
};

/* The frame record that x29 points to when the entry code calls into C. Since 7.3 its type is stored next to it; in 6.12 it has none. */
struct frame_record_meta {
	__u64 type;
};

struct pt_regs___meta {
	struct frame_record_meta stackframe;
};

struct pt_regs___plain {
	__u64 stackframe[2];
};
#pragma clang attribute pop

/* The program's registers distinguish one interrupt or exception from the previous one. */
static __always_inline __u64 entry_id(struct pt_regs *regs)
{
	return regs->pc ^ regs->sp << 1 ^ regs->regs[0] << 2 ^ regs->regs[1] << 3 ^ regs->regs[2] << 5 ^ regs->regs[3] << 7 ^
	       regs->regs[4] << 11 ^ regs->regs[5] << 13 ^ regs->regs[8] << 17 ^ regs->regs[30] << 19;
}

#define NR_pread64 67
#define NR_pwrite64 68
#define NR_io_setup 0
#define NR_io_getevents 4
#define NR_io_submit 2
#define NR_io_pgetevents 292
#define NR_io_uring_enter 426
#define NR_futex 98

/* Number in the table of 32-bit programs (arch/arm64/include/asm/unistd32.h); only io_uring_enter is used. */
#define NR_I386 (1 << 29)
#define PSR_MODE32_BIT 0x10 /* arch/arm64/include/uapi/asm/ptrace.h */
/* Placeholders for calls that this table does not need: no call has these numbers. */
#define NR_I386_pread64 (NR_I386 | 0xffff)
#define NR_I386_pwrite64 NR_I386_pread64
#define NR_I386_io_submit NR_I386_pread64

static __always_inline bool calls_as_i386(struct task_struct *task)
{
	return false;
}

static __always_inline long call_number(struct task_struct *task, long nr)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return nr >= 0 && nr != NR_io_uring_enter && regs->pstate & PSR_MODE32_BIT ? nr | NR_I386 : nr;
}

/* A call that also returns in the new thread, with 0. */
static __always_inline bool makes_a_thread(long nr)
{
	return nr == 220 || nr == 435; /* clone, clone3 */
}

static __always_inline long aio_number(long nr)
{
	return nr;
}

/* An address as a plain number: the verifier does not allow the operations below on a pointer. */
static __always_inline __u64 number_of(const void *pointer)
{
	__u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &pointer);
	return number;
}

static __always_inline __u64 word_at(__u64 address)
{
	__u64 word = 0;

	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_core_cast((void *)address, struct pt_regs)->regs[0];
	/* before 6.2 */
	bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
	return word;
}

/* Functions keep a 16-byte aligned frame record (AAPCS64): the address of the caller's record, and the return address. Finds
 * the callee's record for a caller's record: the nearest one below that points to it; 0 if none is near enough.
 */
#define RECORD 16
#define FARTHEST 24

static __always_inline __u64 record_below(__u64 from, __u64 named)
{
	__u64 found = 0;

	if (!named)
		return 0;
	/* Without branches, because the verifier would follow each one. */
	for (int i = FARTHEST; i > 0; i--) {
		__u64 at = from - i * RECORD, other = word_at(at) ^ named;

		barrier_var(other);
		__u64 is_it = ((other | -other) >> 63) - 1; /* all ones, or none */
		found = (found & ~is_it) | (at & is_it);
	}
	return found;
}

/* In the order of path/entry/arm64.rs: each function for 64-bit and 32-bit programs; the last two are separate. */
enum entry_function {
	FUNCTION_SYNC, /* entry of system calls and exceptions, not of interrupts */
	FUNCTION_SYNC_32,
	FUNCTION_CALL, /* caller of a system call */
	FUNCTION_CALL_32,
	FUNCTION_SVC, /* function that is on the stack throughout a system call */
	FUNCTION_SVC_32,
	FUNCTION_IRQ, /* entry of interrupts from user mode */
	FUNCTION_IRQ_32,
	FUNCTION_FIQ,
	FUNCTION_FIQ_32,
	FUNCTION_ERROR,
	FUNCTION_ERROR_32,
	FUNCTION_NESTED, /* an interrupt within the kernel */
	FUNCTION_NESTED_FIQ,
	FUNCTIONS
};
_Static_assert(FUNCTIONS == ENTRY_FUNCTIONS_MAX, "each has its place, and path/entry/arm64.rs its name");

static __always_inline bool in_either(__u64 return_address, int which)
{
	return in_function(return_address, which) || in_function(return_address, which + 1);
}

/* CPUs with PAC sign return addresses in bits that no address uses. These bits are equal in all kernel addresses. */
static __always_inline __u64 returns_to(__u64 record)
{
	return record ? word_at(record + 8) | 0xffffULL << 48 | (entry_functions[FUNCTION_SYNC].start & ~0ULL << 36) : 0;
}

/* Frame record of the first function that the entry code called (el0t_64_sync_handler, el0t_64_irq_handler). */
static __always_inline __u64 first_record(__u64 regs)
{
	bool meta = bpf_core_field_exists(((struct pt_regs___meta *)0)->stackframe);

	return record_below(regs, regs + (meta ? bpf_core_field_offset(struct pt_regs___meta, stackframe) :
						 bpf_core_field_offset(struct pt_regs___plain, stackframe)));
}

/* Return addresses of the calls that led here, innermost first, from the kernel's own unwinder. Each interruption level has
 * its own buffer.
 */
#define CALLERS 128 /* power of two: it masks an index; kernel.perf_event_max_stack is 127 */
#define CALLERS_NESTED 4 /* levels: a thread and nested interrupts */
struct callers {
	__u64 at[CALLERS];
	__u32 level; /* the next free slot */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALLERS_NESTED);
	__type(key, __u32);
	__type(value, struct callers);
} callers SEC(".maps");

/* The outermost addresses, and whether the walk contains an interrupt within the kernel. */
#define OUTERMOST 4
struct outermost {
	__u64 at[OUTERMOST];
	__u64 nested;
};

/* Whether the address is in an entry function. A truncated walk contains none; nor does a kernel thread's walk. */
static __always_inline bool is_entry(__u64 address)
{
	if (in_either(address, FUNCTION_SYNC))
		return true;
	for (int which = FUNCTION_IRQ; which <= FUNCTION_ERROR_32; which++)
		if (in_function(address, which))
			return true;
	return false;
}

/* Outermost callers of the current task; all 0 if unknown. `nested`: also look for interrupts within the kernel. Not static,
 * so that the verifier checks it once, not once per path that calls it.
 */
__noinline int outermost_callers(struct outermost *o, bool nested)
{
	__u32 zero = 0;
	struct callers *first = bpf_map_lookup_elem(&callers, &zero);

	if (!first || !o)
		return 0;
	__u32 level = first->level;
	struct callers *c = bpf_map_lookup_elem(&callers, &level);

	if (!c)
		return 0;
	first->level = level + 1;
	barrier();
	long bytes = bpf_get_task_stack(bpf_get_current_task_btf(), c->at, sizeof(c->at), 0);
	__u32 n = bytes > 0 ? bytes / sizeof(c->at[0]) : 0;

	/* If symbols are hidden, the walk cannot be checked. */
	if (n >= OUTERMOST && (!entry_functions[FUNCTION_SYNC].bytes || is_entry(c->at[(n - 1) & (CALLERS - 1)])))
		for (__u32 i = 0; i < OUTERMOST; i++)
			o->at[i] = c->at[(n - 1 - i) & (CALLERS - 1)];
	if (nested)
		for (__u32 i = 0; i < CALLERS && i < n; i++)
			o->nested |= in_either(c->at[i], FUNCTION_NESTED);
	barrier();
	first->level = level;
	return 0;
}

static __always_inline bool is_current(struct task_struct *task)
{
	return number_of(task) == bpf_get_current_task();
}

/* Return address of the outermost call, which identifies an interrupt. System calls and exceptions share their outermost
 * call, so for them this is the return address in the function that handles one of them (el0_da, el0_svc). `here`: the
 * current task; for another task, only its frame records are searched.
 */
__noinline __u64 entry_address(__u64 regs, bool here)
{
	struct outermost o = {};

	if (here)
		outermost_callers(&o, false);
	if (o.at[2])
		return in_either(o.at[0], FUNCTION_SYNC) ? o.at[2] : o.at[0];
	__u64 first = first_record(regs), address = returns_to(first);

	if (!in_either(address, FUNCTION_SYNC))
		return address;
	__u64 second = record_below(first, first);
	__u64 third = returns_to(record_below(second, second));
	return third ? third : address;
}

/* Whether the system call is still running, by the calls that led there; otherwise the kernel is on its way out. `quick`:
 * trust the frame records if they say that it runs.
 */
__noinline __u64 calls_it(__u64 regs, bool here, bool quick)
{
	struct outermost o = {};

	if (here && !quick)
		outermost_callers(&o, false);
	if (o.at[3])
		return in_either(o.at[3], FUNCTION_CALL);
	__u64 record = first_record(regs);

	for (int i = 0; i < 3; i++) {
		record = record_below(record, record);
		if (in_either(returns_to(record), FUNCTION_CALL))
			return true;
	}
	if (here && quick)
		outermost_callers(&o, false);
	return in_either(o.at[3], FUNCTION_CALL);
}

/* On arm64 a system call's result replaces its first argument and may be equal to it, as for brk(2). io_uring_enter's result
 * is at most the number of requests to submit, and its first argument is a descriptor. If symbols are hidden, a call whose
 * result equals its first argument looks unfinished.
 */
static __always_inline bool has_result(struct pt_regs *regs, bool here, bool quick)
{
	if (regs->regs[0] != regs->orig_x0)
		return true;
	if (regs->syscallno == NR_io_uring_enter && (__u32)regs->regs[1] < (__u32)regs->orig_x0)
		return false;
	return entry_functions[FUNCTION_CALL].bytes && !calls_it(number_of(regs), here, quick);
}

#define NR_rt_sigreturn 139
#define NR_MAX 1023 /* above the numbers of any kernel; only lost numbers are replaced */

/* The entry code sets syscallno to -1 for interrupts and exceptions. The kernel also does so on the way out of a system call
 * when it checks for signals (forget_syscall in signal.c), where most task work runs. The program's own register still has
 * the number, except for rt_sigreturn(2), which restores the register's value from before the signal.
 */
static __always_inline void entry_of(struct task_struct *task, struct entry *e, bool want_address)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bool here = is_current(task);

	e->address = 0;
	if (task->flags & PF_IO_WORKER) {
		/* A thread that was never in user mode: all its registers are 0. */
		e->nr = 0;
		e->finished = true;
		return;
	}
	e->nr = call_number(task, regs->syscallno);
	e->finished = e->nr < 0 || has_result(regs, here, false);
	if (e->nr >= 0)
		return;
	e->address = entry_address(number_of(regs), here);
	if (!in_either(e->address, FUNCTION_SVC))
		return;
	__u32 nr = in_function(e->address, FUNCTION_SVC) ? regs->regs[8] : regs->regs[7];
	e->nr = call_number(task, nr <= NR_MAX ? nr : NR_rt_sigreturn);
	e->address = 0;
}

/* All interrupts share one entry, and more can arrive on the way out of an interrupt or system call, where task work runs.
 * The interrupt by which the thread left user mode is the one with the thread's registers (do_interrupt_handler in
 * entry-common.c, lib/irq_regs.c). If the kernel has only function symbols (Debian's 6.1), it is the outermost interrupt.
 */
static __always_inline bool left_user_mode_by_this(struct task_struct *task)
{
	__u64 offset = 0, regs = 0;
	struct outermost o = {};

	if (!irq_regs_address) {
		outermost_callers(&o, true);
		return o.at[0] && !o.nested;
	}
	bpf_probe_read_kernel(&offset, sizeof(offset), (const void *)(per_cpu_offsets_address + 8 * bpf_get_smp_processor_id()));
	bpf_probe_read_kernel(&regs, sizeof(regs), (const void *)(irq_regs_address + offset));
	return regs == number_of((const void *)bpf_task_pt_regs(task));
}

/* Number of requests that the current io_uring_enter was asked to submit; 0: none is running. */
static __always_inline __u32 enter_batch(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return regs->syscallno == NR_io_uring_enter && !has_result(regs, is_current(task), true) ? regs->regs[1] : 0;
}

static __always_inline long syscall_nr(struct pt_regs *regs)
{
	return regs->syscallno;
}

/* The first three arguments of a function. */
static __always_inline __u64 argument(struct pt_regs *regs, int n)
{
	return regs->regs[n - 1];
}

/* The six arguments of a system call; valid until its exit. */
static __always_inline __u64 call_argument(struct pt_regs *regs, int n)
{
	return n > 1 ? regs->regs[n - 1] : regs->orig_x0;
}

static __always_inline __u64 argument_i386(struct pt_regs *regs, int n)
{
	return (__u32)call_argument(regs, n);
}

/* The flag among those set at a switch-in and cleared on the way to user mode that the thread has. Every switch sets
 * TIF_NOTIFY_RESUME for a thread with rseq(2), which includes glibc's threads: bit 2, or bit 3 since lazy preemption (6.16);
 * since then a thread that is switched in has no bit 2. Before 6.16, bit 3 was TIF_FOREIGN_FPSTATE, which the next switch
 * may also clear: it is used for threads without rseq(2). Since 6.19 few switches set a flag, and with the shared flag
 * layout the two bits have other meanings.
 */
static __always_inline __u32 gone_in_user_mode(__u32 flags)
{
	if (bpf_core_type_exists(struct rseq_event))
		return 0;
	return flags & 4 ? 4 : flags & 8;
}

/* include/linux/interrupt.h: timers shared by all CPUs. Per-CPU timers are identified by name. */
#define IRQF_TIMER 0x200
#define IRQF_PERCPU 0x400

/* Identified by the handler's name. The kind of a line never changes. */
#define LINES_KNOWN 1024 /* power of two: it masks an index */
__u8 line_kinds[LINES_KNOWN];

static __always_inline enum line_kind kind_of_line(int irq, struct irqaction *action)
{
	__u32 line = irq, place = line & (LINES_KNOWN - 1);
	char name[16] = {};

	barrier_var(place); /* otherwise the compiler removes a mask that the verifier needs */
	if (line < LINES_KNOWN && line_kinds[place])
		return line_kinds[place];
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(action, name));
	__u32 flags = BPF_CORE_READ(action, flags);
	/* drivers/clocksource/arm_arch_timer.c, hyperv_timer.c */
	bool timer = flags & IRQF_TIMER || !bpf_strncmp(name, sizeof(name), "arch_timer") ||
		     !bpf_strncmp(name, sizeof(name), "Hyper-V stimer0");
	/* arch/arm/xen/enlighten.c */
	bool xen = flags & IRQF_PERCPU && !bpf_strncmp(name, sizeof(name), "events");
	enum line_kind kind = timer					   ? LINE_OF_TIMER :
			      xen					   ? LINE_OF_LINES :
			      !bpf_strncmp(name, sizeof(name), "IPI")	   ? LINE_OF_IPI :
			      !bpf_strncmp(name, sizeof(name), "arm-pmu") ? LINE_OF_PMU :
									     LINE_OF_DEVICE;
	if (line < LINES_KNOWN)
		line_kinds[place] = kind;
	return kind;
}

/* include/uapi/asm/ptrace.h and linux/bpf_perf_event.h: a sampling program's context, a stable layout. */
struct bpf_perf_event_data {
	__u64 regs[31], sp, pc, pstate;
	__u64 sample_period;
	__u64 addr;
};
#define USER_MODE(ctx) (!((ctx)->pstate & 0xf))

static __always_inline struct user_registers user_registers_of(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	return (struct user_registers){ .ip = regs->pc, .sp = regs->sp, .fp = regs->regs[29] };
}

/* Return address of a system-call stub, which has no frame. */
static __always_inline void stub_callers(struct task_struct *task, struct stack_room *room)
{
	room->stack.callers[0] = ((struct pt_regs *)bpf_task_pt_regs(task))->regs[30] & ADDRESS;
}

#endif
