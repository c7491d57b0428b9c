/* Interrupts by vector and CPU, those that hit a watched thread, and the interprocessor interrupts meant for one. */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32); /* interrupt line */
	__type(value, struct irq_count);
} irqs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 512);
	__type(key, struct return_key);
	__type(value, __u64);
} returns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct ipi_key);
	__type(value, __u64);
} ipis SEC(".maps");

/* An interrupt over a watched thread returns to user mode if it is itself the outermost entry; Rust compares the entry
 * with the vector.
 */
static __always_inline void count_return(struct task_struct *task, __u32 vector, struct cpu_slot *slot)
{
	struct entry entry;

	if (task->flags & PF_IO_WORKER)
		return; /* never in user mode */
	entry_of(task, &entry, true);
	if (entry.nr >= 0)
		return; /* inside a system call: no return to user mode of its own */
	struct return_key key = { .entry = entry.address, .vector = vector };
	ADD_CACHED(returns, last_return, key, 1, slot);
}

static __always_inline int vector_entry(__u32 vector)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	bool here = watched(task);

	slot->in_vector = vector + 1;
	slot->watched_here = here;
	if (not_counting())
		return 0;
	slot->vectors[vector].count++;
	if (here)
		count_return(task, vector, slot);
	/* An IPI that wakes a watched thread finds the CPU idle, or another program on it. */
	if (vector == VEC_RESCHED) {
		here = here || slot->expect_resched;
		slot->expect_resched = 0;
	}
	if (here)
		slot->vectors[vector].on_watched++;
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
		this_slot()->in_vector = 0;                    \
		return 0;                                      \
	}

VECTOR(local_timer, VEC_TIMER)
VECTOR(reschedule, VEC_RESCHED)
VECTOR(call_function_single, VEC_CALL_SINGLE)
VECTOR(call_function, VEC_CALL_MANY)
VECTOR(irq_work, VEC_IRQ_WORK)
VECTOR(x86_platform_ipi, VEC_PLATFORM)

/* Two looks at the clock for each interrupt: only where its time is asked for. */
const volatile bool spans_timed = false;

/* Puts away what the slot counted of its last line. */
static __always_inline void count_line(struct cpu_slot *slot)
{
	__u32 line = slot->last_irq - 1;

	if (!slot->last_line_count.count)
		return;
	struct irq_count *count = bpf_map_lookup_elem(&irqs, &line);
	if (!count) {
		/* As in add(): another CPU may be ahead. */
		struct irq_count zero = {};
		bpf_map_update_elem(&irqs, &line, &zero, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&irqs, &line);
	}
	if (count) {
		count->count += slot->last_line_count.count;
		count->on_watched += slot->last_line_count.on_watched;
		count->spent_ns += slot->last_line_count.spent_ns;
	} else {
		slot->lost++;
	}
	slot->last_line_count.count = slot->last_line_count.on_watched = slot->last_line_count.spent_ns = 0;
}

/* `since` is over; `line` as the slot has it, + 1. Returns how long it was. */
static __always_inline __u64 count_time(struct cpu_slot *slot, __u64 *since, __u32 line)
{
	__u64 began = *since;

	if (!began)
		return 0;
	*since = 0;
	__u64 spent = bpf_ktime_get_ns() - began;
	if (not_counting() || !line)
		return spent;
	/* What is not put away with a count would be the next line's. */
	if (slot->last_irq == line && slot->last_line_count.count) {
		slot->last_line_count.spent_ns += spent;
		return spent;
	}
	line--;
	struct irq_count *count = bpf_map_lookup_elem(&irqs, &line);
	if (count)
		count->spent_ns += spent;
	return spent;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(interrupt_handler_entry, int irq)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	bool here = watched(task);
	__u32 line = irq;

	if (slot->last_irq != line + 1) {
		count_line(slot);
		slot->last_irq = line + 1;
	}
	slot->in_irq = line + 1;
	if (spans_timed)
		slot->handler_since = bpf_ktime_get_ns();
	if (not_counting())
		return 0;
	slot->last_line_count.count++;
	slot->last_line_count.on_watched += here;
	if (here)
		count_return(task, VEC_MAX, slot);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(interrupt_handler_exit, int irq)
{
	struct cpu_slot *slot = this_slot();

	if (spans_timed) {
		__u64 spent = count_time(slot, &slot->handler_since, irq + 1);

		/* What it took of a softirq that it interrupted is not that one's. */
		if (slot->softirq_since)
			slot->softirq_since += spent;
	}
	slot->in_irq = 0;
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(interrupt_softirq_raise, unsigned int number)
{
	struct cpu_slot *slot = this_slot();
	struct raiser *raiser = &slot->raisers[number & (SOFTIRQ_MAX - 1)];

	raiser->irq = slot->in_irq;
	raiser->vector = slot->in_irq ? 0 : slot->in_vector;
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(interrupt_softirq_entry, unsigned int number)
{
	struct cpu_slot *slot = this_slot();

	slot->in_softirq = number + 1;
	if (spans_timed)
		slot->softirq_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(interrupt_softirq_exit, unsigned int number)
{
	struct cpu_slot *slot = this_slot();

	if (spans_timed)
		count_time(slot, &slot->softirq_since, slot->raisers[number & (SOFTIRQ_MAX - 1)].irq);
	slot->in_softirq = 0;
	return 0;
}

/* An IPI is the watched process's when a watched thread runs on the CPU it goes to, or when it follows, on the sender's
 * CPU, the wake-up of a watched thread. A thread sends IPIs with interrupts on: those that an interrupt sends while this runs
 * for a thread's are missed, and counted as missed (`recursion_misses`).
 *
 * A thread is its CPU's current one, and is sent kicks, a moment before its switching in is seen here. Where kick_process may be
 * probed, a kick is that of the thread which was asked for (`kick_site`, `kick_bytes`: the function that asks for it).
 */
const volatile __u64 kick_site = 0;
const volatile __u64 kick_bytes = 0;

static __always_inline bool ipi_may_concern_watched(__u32 to_cpu)
{
	struct cpu_slot *slot = this_slot();

	if (not_counting())
		return false;
	return slots[to_cpu & (IOTRAIL_MAX_CPUS - 1)].watched_here || slot->woke_watched || slot->kicks_watched;
}

/* One that may concern the watched. */
static __always_inline int ipi_sent(__u32 to_cpu, __u64 site, bool resched)
{
	struct cpu_slot *slot = this_slot();
	struct cpu_slot *target = &slots[to_cpu & (IOTRAIL_MAX_CPUS - 1)];
	bool is_kick = site - kick_site < kick_bytes;

	if (is_kick ? !slot->kicks_watched : !target->watched_here && !slot->woke_watched)
		return 0;
	struct ipi_key key = { .site = site, .to_cpu = to_cpu, .resched = resched };
	if (!is_kick && !target->watched_here)
		slot->woke_watched = 0; /* one IPI per wake-up */
	if (resched)
		target->expect_resched = 1;
	ADD_CACHED(ipis, last_ipi, key, 1, slot);
	return 0;
}

/* A reschedule IPI has no callback. */
SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(interrupt_ipi_send, unsigned int cpu, unsigned long site, void *callback)
{
	return ipi_may_concern_watched(cpu) ? ipi_sent(cpu, site, callback == 0) : 0;
}
