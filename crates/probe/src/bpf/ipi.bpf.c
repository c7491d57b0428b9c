/* Counts IPIs sent, and those for traced threads. */

/* Preallocated, like `irqs`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct ipi_key);
	__type(value, __u64);
} ipis SEC(".maps");

/* An IPI belongs to the traced processes if it kicks or wakes one of their threads, or if one of their threads sends it.
 * Threads send IPIs with interrupts enabled: an IPI sent by an interrupt that arrives while this program runs is missed, and
 * counted as missed (`recursion_misses`).
 *
 * One of these functions sends a kick, to the current thread of the target CPU. A thread becomes current, and may be kicked,
 * shortly before its switch-in is observed here. If kick_process can be probed, the kick belongs to its argument instead.
 */
const volatile struct function_extent kick_sites[KICK_SITES_MAX] = {};
const volatile bool kick_is_probed = false;
const volatile __u64 wakes_address = 0; /* sched_ttwu_pending: handles a wake-up on another CPU */

static __always_inline bool is_kick(__u64 site)
{
	for (int i = 0; i < KICK_SITES_MAX; i++)
		/* The return address is one past the call, and one past the function's end if the call is its last instruction. */
		if (site - 1 - kick_sites[i].start < kick_sites[i].bytes)
			return true;
	return false;
}

static __always_inline bool ipi_may_concern_watched(__u32 to_cpu)
{
	struct cpu_slot *slot = this_slot();

	if (not_counting())
		return false;
	return slots[to_cpu & (IOTRAIL_MAX_CPUS - 1)].watched_here || slot->watched_here || slot->waking ||
	       slot->kicks_watched;
}

/* Counts an IPI that may concern a traced thread. A reschedule IPI has no callback. */
static __always_inline int ipi_sent(__u32 to_cpu, __u64 site, __u64 callback)
{
	struct cpu_slot *slot = this_slot();
	struct cpu_slot *target = &slots[to_cpu & (IOTRAIL_MAX_CPUS - 1)];
	struct ipi_key key = {
		.site = site,
		.to_cpu = to_cpu,
		.from_cpu = bpf_get_smp_processor_id(),
		.flags = callback ? 0 : IPI_RESCHED,
	};
	struct task_struct *woken = (struct task_struct *)slot->waking;
	__u32 nr;

	if (!callback && is_kick(site)) {
		if (kick_is_probed ? !slot->kicks_watched : !target->watched_here)
			return 0;
		slot->kicks_watched = 0;
		key.flags |= IPI_FOR_WATCHED;
		credit(slot);
	} else if (woken && (!callback || callback == wakes_address) && BPF_CORE_READ(woken, thread_info.cpu) == to_cpu) {
		slot->waking = 0; /* one IPI per wake-up */
		key.flags |= IPI_FOR_WATCHED;
	} else if (!slot->watched_here || context_of(slot, &nr) != WAKER_OTHER) {
		return 0;
	}
	ADD_CACHED(ipis, last_ipi, key, 1, LOSS_IPI, slot);
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(interrupt_ipi_send, unsigned int cpu, unsigned long site, void *callback)
{
	return ipi_may_concern_watched(cpu) ? ipi_sent(cpu, site, address_at(callback, this_slot(), 3)) : 0;
}

/* The product with an isolated bit has a different value in its top six bits for each bit. */
#define DE_BRUIJN 0x03f79d71b4cb0a89ULL
static const __u8 de_bruijn_bits[64] = {
	0,  1,	48, 2,	57, 49, 28, 3,	61, 58, 50, 42, 38, 29, 17, 4,	62, 55, 59, 36, 53, 51, 43, 22, 45, 39, 33, 30, 24, 18, 12, 5,
	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, 44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,	13, 8,	7,  6,
};

/* The first CPU in a mask. Branch-free, because the 6.1 verifier would follow a branch per bit. */
static __always_inline __u32 first_of(const struct cpumask *mask)
{
	for (int word = 0; word < IOTRAIL_MAX_CPUS / 64; word++) {
		__u64 bits = 0;

		bpf_probe_read_kernel(&bits, sizeof(bits), (const void *)mask + 8 * word);
		if (bits)
			return word * 64 + de_bruijn_bits[(bits & -bits) * DE_BRUIJN >> 58];
	}
	return IOTRAIL_MAX_CPUS - 1;
}

const volatile struct function_extent ipi_senders[IPI_SENDERS_MAX] = {};

/* The same for reschedule IPIs on kernels without that tracepoint, if the architecture has its own. The site is likewise the
 * caller of the requesting function: the second return address above the outermost sender.
 */
SEC("tp_btf/ipi_raise")
int BPF_PROG(interrupt_ipi_raised, const struct cpumask *mask, const char *reason)
{
	__u64 frames[14] = {};
	__u64 site = 0;
	__u32 to_cpu;

	if (vector_of_ipi(reason) != VEC_RESCHED)
		return 0;
	to_cpu = first_of(mask);
	if (!ipi_may_concern_watched(to_cpu))
		return 0;
	bpf_get_stack(ctx, frames, sizeof(frames), 0);
	for (int i = 0; i < 12; i++)
		for (int sender = 0; sender < IPI_SENDERS_MAX; sender++)
			if (frames[i] - 1 - ipi_senders[sender].start < ipi_senders[sender].bytes)
				site = frames[i + 2];
	return ipi_sent(to_cpu, site, 0);
}
