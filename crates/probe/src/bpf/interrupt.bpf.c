/* Counts interrupts by vector and CPU, and those that interrupt a traced thread. */

/* Preallocated, because an allocation raises irq work on this CPU, and that interrupt would be counted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct irq_key);
	__type(value, struct irq_count);
} irqs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct return_key);
	__type(value, __u64);
} returns SEC(".maps");

/* An interrupt of a traced thread returns to user mode if it is the outermost entry itself. User space compares the entry
 * with the observed action. `line`: device line + 1, or 0.
 */
static __always_inline void count_return(struct task_struct *task, __u32 vector, __u32 line, struct cpu_slot *slot)
{
	struct entry entry;
	enum waker what = vector == VEC_UNTRACED_TIMER ? FIRED_TIMER : line ? WAKER_IRQ : WAKER_VECTOR;

	if (task->flags & PF_IO_WORKER)
		return; /* never in user mode */
	if (!left_user_mode_by_this(task))
		return; /* inside another interrupt */
	entry_of(task, &entry, true);
	if (entry.nr >= 0)
		return; /* inside a system call, so it does not return to user mode */
	if (!fire((struct pt_regs *)bpf_task_pt_regs(task), what, line ? line - 1 : vector, slot))
		return;
	struct return_key key = { .entry = entry.address, .vector = vector, .line = line };
	ADD_CACHED(returns, last_return, key, 1, LOSS_INTERRUPT, slot);
}

/* The timer interrupt samples the thread's call site, weighted by its CPU time since the last sample, so that no interrupt
 * is added. At most once per tick, the granularity of the scheduler's runtime.
 */
static __always_inline void sample_site(struct task_struct *task)
{
	struct thread_account *account = bpf_task_storage_get(&thread_accounts, task, 0, 0);
	__u64 ran = task->se.sum_exec_runtime, ns;
	struct entry entry;

	if (!account || ran == account->sited_ns)
		return;
	/* CPU time before the first sample is unknown: at most one tick is attributed. */
	ns = account->sited_ns ? ran - account->sited_ns : ran < site_tick_ns ? ran : site_tick_ns;
	account->sited_ns = ran;
	entry_of(task, &entry, false);
	__u32 nr = entry.nr >= 0 ? entry.nr : SITE_USER;
	site_counted(user_stack(ROOM_OF_SAMPLES), SITE_OF(SITE_RUNS, nr), 1, ns, 0);
}

static __always_inline int vector_entry(__u32 vector)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	bool here = watched(task);

	slot->in_vector = vector + 1;
	slot->watched_here = here;
	slot->waking = 0;
	if (not_counting())
		return 0;
	slot->vectors[vector].count++;
	if (vector == VEC_TIMER && some_lie())
		backlog_ticks();
	if (!here)
		return 0;
	slot->vectors[vector].on_watched++;
	count_return(task, vector, 0, slot);
	if (vector == VEC_TIMER && site_tick_ns)
		sample_site(task);
	return 0;
}

static __always_inline int vector_exit(void)
{
	struct cpu_slot *slot = this_slot();

	slot->in_vector = 0;
	slot->waking = 0;
	return 0;
}

#define VECTOR(name, vector)                                   \
	SEC("tp_btf/" #name "_entry")                          \
	int BPF_PROG(interrupt_##name##_entry, int number)     \
	{                                                      \
		return vector_entry(vector);                   \
	}                                                      \
	SEC("tp_btf/" #name "_exit")                           \
	int BPF_PROG(interrupt_##name##_exit, int number)      \
	{                                                      \
		return vector_exit();                          \
	}

VECTOR(local_timer, VEC_TIMER)
VECTOR(reschedule, VEC_RESCHED)
VECTOR(call_function_single, VEC_CALL_SINGLE)
VECTOR(call_function, VEC_CALL_MANY)
VECTOR(irq_work, VEC_IRQ_WORK)
VECTOR(x86_platform_ipi, VEC_PLATFORM)

/* Architectures whose IPIs are lines have a single tracepoint for all of them (arch/arm64/kernel/smp.c). The first letters
 * of its text distinguish them.
 */
static __always_inline __u32 vector_of_ipi(const char *reason)
{
	char says[9] = {};

	bpf_probe_read_kernel(says, 8, reason);
	return !bpf_strncmp(says, 8, "Reschedu") ? VEC_RESCHED :
	       !bpf_strncmp(says, 8, "Function") ? VEC_CALL_MANY :
	       !bpf_strncmp(says, 8, "IRQ work") ? VEC_IRQ_WORK :
	       !bpf_strncmp(says, 8, "Timer br") ? VEC_TIMER :
						   VEC_PLATFORM;
}

SEC("tp_btf/ipi_entry")
int BPF_PROG(interrupt_from_cpu_entry, const char *reason)
{
	return vector_entry(vector_of_ipi(reason) & (VEC_MAX - 1));
}

SEC("tp_btf/ipi_exit")
int BPF_PROG(interrupt_from_cpu_exit, const char *reason)
{
	return vector_exit();
}

/* Hyper-V's timer interrupt has no tracepoint, and may share an entry with the VMBus. Timers that expire at the same time
 * belong to one interrupt.
 */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(interrupt_untraced_timer, void *timer, __s64 *now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	__u64 moment = 0;

	if (some_lie())
		backlog_ticks();
	if (slot->in_irq || slot->in_vector || slot->in_softirq || not_counting() || !watched(task))
		return 0;
	bpf_probe_read_kernel(&moment, sizeof(moment), now);
	if (moment == slot->timers_ended)
		return 0;
	slot->timers_ended = moment;
	slot->vectors[VEC_UNTRACED_TIMER].count++;
	slot->vectors[VEC_UNTRACED_TIMER].on_watched++;
	count_return(task, VEC_UNTRACED_TIMER, 0, slot);
	return 0;
}

/* Timing reads the clock twice per interrupt, so it is done only if requested. */
const volatile bool spans_timed = false;

/* Only this CPU writes this entry. */
static __always_inline struct irq_count *count_of_line(__u32 line, struct cpu_slot *slot)
{
	struct irq_key key = { .line = line, .cpu = bpf_get_smp_processor_id() };
	struct irq_count *count = bpf_map_lookup_elem(&irqs, &key);

	if (!count) {
		struct irq_count zero = {};
		bpf_map_update_elem(&irqs, &key, &zero, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&irqs, &key);
	}
	if (!count)
		slot->losses[LOSS_INTERRUPT]++;
	return count;
}

/* Moves the slot's counts of the last line to the map. */
static __always_inline void count_line(struct cpu_slot *slot)
{
	if (!slot->last_line_count.count)
		return;
	struct irq_count *count = count_of_line(slot->last_irq - 1, slot);
	if (count) {
		count->count += slot->last_line_count.count;
		count->on_watched += slot->last_line_count.on_watched;
		count->credited += slot->last_line_count.credited;
		count->spent_ns += slot->last_line_count.spent_ns;
		count->threaded += slot->last_line_count.threaded;
	}
	__builtin_memset(&slot->last_line_count, 0, sizeof(slot->last_line_count));
}

/* See credit.h. Another line's handler may have run since this line's handler raised the softirq. */
__noinline int count_credit(__u32 line)
{
	struct cpu_slot *slot = this_slot();

	if (slot->last_irq == line + 1 && slot->last_line_count.count) {
		slot->last_line_count.credited++;
		return 0;
	}
	struct irq_count *count = count_of_line(line, slot);
	if (count)
		count->credited++;
	return 0;
}

/* Ends the interval that began at `since` and adds it to `line`, which is stored + 1. Returns the duration. */
static __always_inline __u64 count_time(struct cpu_slot *slot, __u64 *since, __u32 line)
{
	__u64 began = *since;

	if (!began)
		return 0;
	*since = 0;
	__u64 spent = bpf_ktime_get_ns() - began;
	if (not_counting() || !line)
		return spent;
	/* Once the slot's count is moved, a time left there would go to the next line. */
	if (slot->last_irq == line && slot->last_line_count.count) {
		slot->last_line_count.spent_ns += spent;
		return spent;
	}
	struct irq_key key = { .line = line - 1, .cpu = bpf_get_smp_processor_id() };
	struct irq_count *count = bpf_map_lookup_elem(&irqs, &key);
	if (count)
		count->spent_ns += spent;
	return spent;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(interrupt_handler_entry, int irq, struct irqaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	enum line_kind kind = kind_of_line(irq, action);
	__u32 line = irq;

	if (kind != LINE_OF_DEVICE)
		return kind == LINE_OF_TIMER ? vector_entry(VEC_TIMER) : 0;
	bool here = watched(task);
	if (slot->last_irq != line + 1) {
		count_line(slot);
		slot->last_irq = line + 1;
	}
	slot->in_irq = line + 1;
	slot->handlers++;
	slot->waking = 0;
	struct task_struct *thread = action->thread;
	if (thread)
		leaves_to_thread(thread, slot);
	if (spans_timed)
		slot->handler_since = bpf_ktime_get_ns();
	if (not_counting())
		return 0;
	slot->last_line_count.count++;
	slot->last_line_count.on_watched += here;
	slot->last_line_count.threaded += thread != 0;
	if (here)
		count_return(task, VEC_MAX, line + 1, slot);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(interrupt_handler_exit, int irq, struct irqaction *action)
{
	struct cpu_slot *slot = this_slot();
	enum line_kind kind = kind_of_line(irq, action);

	if (kind != LINE_OF_DEVICE)
		return kind == LINE_OF_TIMER ? vector_exit() : 0;
	if (spans_timed) {
		__u64 spent = count_time(slot, &slot->handler_since, irq + 1);

		/* The handler's time is not part of the softirq that it interrupted. */
		if (slot->softirq_since)
			slot->softirq_since += spent;
	}
	slot->in_irq = 0;
	slot->waking = 0;
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(interrupt_softirq_raise, unsigned int number)
{
	struct cpu_slot *slot = this_slot();
	struct raiser *raiser = &slot->raisers[number & (SOFTIRQ_MAX - 1)];

	__u32 irq = slot->in_irq, vector = irq ? 0 : slot->in_vector, serial = slot->handlers;

	if (!irq && !vector && slot->in_softirq) {
		/* The softirq continues its own work or a consequence of it. */
		irq = slot->raiser.irq;
		vector = slot->raiser.vector;
		serial = slot->raiser.serial;
	} else if (!irq && !vector) {
		irq = line_of_thread(&serial);
	}
	/* A thread may have raised it too. The causes within one run cannot be separated. */
	if (raiser->pending && (!raiser->irq != !irq || raiser->vector != vector))
		irq = vector = 0;
	raiser->irq = irq;
	raiser->vector = vector;
	raiser->serial = serial;
	raiser->pending = 1;
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(interrupt_softirq_entry, unsigned int number)
{
	struct cpu_slot *slot = this_slot();
	struct raiser *raiser = &slot->raisers[number & (SOFTIRQ_MAX - 1)];

	slot->in_softirq = number + 1;
	slot->raiser = *raiser;
	raiser->pending = 0;
	slot->waking = 0;
	if (spans_timed)
		slot->softirq_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(interrupt_softirq_exit, unsigned int number)
{
	struct cpu_slot *slot = this_slot();

	if (spans_timed)
		count_time(slot, &slot->softirq_since, slot->raiser.irq);
	slot->in_softirq = 0;
	slot->waking = 0;
	return 0;
}
