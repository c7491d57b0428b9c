/* A program's native aio calls: contexts, submissions and reaped results. */
#include "aio_requests.h"

struct context_search {
	struct kioctx_table *table;
	__u64 user_id;
	struct kioctx *found;
};

static int context_is(__u32 i, struct context_search *search)
{
	struct kioctx *ctx = context_at(search->table, i);

	if (!ctx || BPF_CORE_READ(ctx, user_id) != search->user_id)
		return 0;
	search->found = ctx;
	return 1;
}

/* Finds the kioctx of a context ID the way the kernel does (lookup_ioctx): the context's event ring starts with its index in
 * the process's table. Before the first use the ring is not mapped, so the table is searched.
 */
static __always_inline struct kioctx *context_named(__u64 user_id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct kioctx_table *table = BPF_CORE_READ(task, mm, ioctx_table);
	struct context_search search = { .table = table, .user_id = user_id };
	__u32 id;

	if (!table)
		return 0;
	if (bpf_probe_read_user(&id, sizeof(id), (void *)user_id))
		bpf_loop(BPF_CORE_READ(table, nr), context_is, &search, 0);
	else
		context_is(id, &search);
	return search.found;
}

__noinline int number_context(__u64 address, bool found)
{
	struct ring_info info = {
		.interface = INTERFACE_AIO,
		.cq_entries = BPF_CORE_READ((struct kioctx *)address, nr_events),
		.found = found,
	};

	aio_used = calls_needed = 1;
	return number_new(address, &info, !found);
}

/* Stores the context of the current thread's call in the slot, which caches the last context. */
__noinline int context_called(__u64 user_id)
{
	struct cpu_slot *slot = this_slot();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	/* A context's address can only be reused after another context was created. */
	if (slot->aio_user_id == user_id && slot->aio_tgid == tgid && slot->aio_epoch == rings_made)
		return 1;
	struct kioctx *ctx = context_named(user_id);
	if (!ctx)
		return 0;
	__u64 address = (__u64)ctx;
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, &address);
	slot->aio_ring = known ? *known : number_context(address, true);
	slot->aio_user_id = user_id;
	slot->aio_tgid = tgid;
	slot->aio_context = address;
	slot->aio_entries = BPF_CORE_READ(ctx, nr_events);
	slot->aio_epoch = rings_made;
	return 1;
}

static __always_inline __u32 tail_of(struct cpu_slot *slot)
{
	struct kioctx *ctx = (struct kioctx *)slot->aio_context;

	return BPF_CORE_READ(ctx, tail);
}

/* State of one call on a context. */
struct aio_call {
	__u64 at;    /* address of the array in the call's arguments */
	__u64 time_ns;
	__u64 user_id; /* address of the event ring in user memory */
	__u64 sought;  /* address of a control block */
	__u32 lie;     /* number of its events found so far */
	__u32 head;
	__u32 first; /* index of the array's first element */
	__u32 ring;
	__u32 tid;
	__u32 entries;
	__u32 narrow; /* a call in the 32-bit table: addresses have 4 bytes */
};

static __always_inline bool block_at(const struct aio_call *call, __u32 i, __u64 *block)
{
	*block = 0;
	if (call->narrow)
		return !bpf_probe_read_user(block, sizeof(__u32), (void *)(call->at + (__u64)i * sizeof(__u32)));
	return !bpf_probe_read_user(block, sizeof(*block), (void *)(call->at + (__u64)i * sizeof(*block)));
}

/* Events are as large as the ring's header, which precedes them. */
static __always_inline void *event_at(const struct aio_call *call, __u32 at)
{
	return (void *)(call->user_id + (1 + (__u64)(at < call->entries ? at : at - call->entries)) * sizeof(struct io_event));
}

static int aio_seek(__u32 i, struct aio_call *call)
{
	__u64 block;

	if (bpf_probe_read_user(&block, sizeof(block), event_at(call, call->head + i) + offsetof(struct io_event, obj)))
		return 1;
	call->lie += block == call->sought;
	return 0;
}

/* Number of unreaped events of this control block in the ring. */
static __noinline int aio_lie(struct aio_call *call, __u64 block)
{
	struct {
		__u32 head;
		__u32 tail;
	} ring;

	if (bpf_probe_read_user(&ring, sizeof(ring), (void *)(call->user_id + offsetof(struct aio_ring, head))))
		return 0;
	if (ring.head >= call->entries || ring.tail >= call->entries)
		return 0;
	call->sought = block;
	call->head = ring.head;
	call->lie = 0;
	bpf_loop(ring.tail >= ring.head ? ring.tail - ring.head : ring.tail + call->entries - ring.head, aio_seek, call, 0);
	return call->lie;
}

static int aio_submit(__u32 i, struct aio_call *call)
{
	__u64 block;
	/* Kept minimal for the BPF stack. */
	struct {
		__u16 aio_lio_opcode;
		__s16 aio_reqprio;
		__u32 aio_fildes;
		__u64 aio_buf;
		__u64 aio_nbytes;
	} iocb;

	if (!block_at(call, i, &block) ||
	    bpf_probe_read_user(&iocb, sizeof(iocb), (void *)(block + offsetof(struct iocb, aio_lio_opcode))))
		return 1;
	struct aio_key key = { .block = block, .ring = call->ring };
	struct aio_request *before = bpf_map_lookup_elem(&aio_requests, &key);
	/* If the previous request has completed and its event is no longer in the ring, its reap was unobserved. */
	if (before && before->ended > before->more && !aio_lie(call, block))
		before = 0;
	bool plain = iocb.aio_lio_opcode == IOCB_CMD_PREAD || iocb.aio_lio_opcode == IOCB_CMD_PWRITE;
	struct aio_request request = {
		.submitted_ns = call->time_ns,
		.asked_bytes = plain ? iocb.aio_nbytes : 0,
		.tid = call->tid,
		.opcode = OPCODES_AIO + (iocb.aio_lio_opcode & (AIO_CMDS - 1)),
		.fd = iocb.aio_fildes,
	};
	aio_submitted(block, call->ring, &request, before);
	return 0;
}

static __always_inline int aio_submission(__u64 user_id, __u64 nr, __u64 at, bool narrow)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();

	if (!counting || (slot->current == CURRENT_UNSEEN && !adopted(task)) || !context_called(user_id))
		return 0;
	here(task, slot);
	slot->aio_tail = tail_of(slot) + 1;
	slot->aio_submit_ns = bpf_ktime_get_ns();
	struct aio_call call = {
		.at = at,
		.time_ns = slot->aio_submit_ns,
		.user_id = user_id,
		.ring = slot->aio_ring,
		.tid = task->pid,
		.entries = slot->aio_entries,
		.narrow = narrow,
	};
	bpf_loop(nr < slot->aio_entries ? nr : slot->aio_entries, aio_submit, &call, 0);
	return 0;
}

/* Attached to the tracepoint of this one system call, so that other calls do not pay for it. */
SEC("tp/syscalls/sys_enter_io_submit")
int aio_submits(struct trace_event_raw_sys_enter *args)
{
	return aio_submission(args->args[0], args->args[1], args->args[2], false);
}

/* Fallback without that tracepoint: no tracefs, or calls in the 32-bit table (ARCH_TRACE_IGNORE_COMPAT_SYSCALLS). It runs
 * for every system call.
 */
static __always_inline int aio_submits_entered_(struct pt_regs *regs, long id)
{
	this_slot()->costly++;
	if (id != NR_io_submit && id != (NR_I386_io_submit & ~NR_I386))
		return 0;
	bool narrow = calls_as_i386(bpf_get_current_task_btf());
	if (narrow)
		return id == NR_io_submit ? 0
					  : aio_submission(argument_i386(regs, 1), argument_i386(regs, 2),
							   argument_i386(regs, 3), true);
	if (id != NR_io_submit || !aio_by_number)
		return 0;
	return aio_submission(call_argument(regs, 1), call_argument(regs, 2), call_argument(regs, 3), false);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(aio_submits_entered, struct pt_regs *regs, long id)
{
	return UNDISTURBED(aio_submits_entered_(regs, id));
}

/* Drops control blocks that the kernel rejected: they are not requests. */
static int aio_refuse(__u32 i, struct aio_call *call)
{
	struct aio_key key = { .ring = call->ring };

	if (!block_at(call, call->first + i, &key.block))
		return 1;
	struct aio_request *request = bpf_map_lookup_elem(&aio_requests, &key);
	if (!request || request->submitted_ns != call->time_ns || request->tid != call->tid)
		return 1;
	struct op_count *op = op_sum(call->ring, request->opcode);
	if (op)
		__sync_fetch_and_add(&op->requests, -1);
	struct cpu_slot *slot = this_slot();
	if (request->later)
		__sync_fetch_and_add(&slot->came_later, -1);
	else if (request->weight == 1)
		slot->chosen_whole--;
	else if (request->weight)
		slot->chosen_sampled--;
	if (!request->more) {
		bpf_map_delete_elem(&aio_requests, &key);
		return 0;
	}
	request->more--;
	if (request->weight && request->followed)
		request->followed--;
	return 0;
}

/* A completion that is in the context's ring before io_submit returns, without an observed end of direct I/O, was posted inline. */
static int aio_look(__u32 i, struct aio_call *call)
{
	struct aio_key key = { .ring = call->ring };
	struct io_event event;

	if (bpf_probe_read_user(&event, sizeof(event), event_at(call, call->first + i)))
		return 1;
	key.block = event.obj;
	struct aio_request *request = bpf_map_lookup_elem(&aio_requests, &key);
	if (!request || request->ended > request->more || request->submitted_ns != call->time_ns || request->tid != call->tid)
		return 0;
	/* If several requests share the control block, the event may belong to another one. */
	if (request->several && aio_lie(call, event.obj) <= (int)request->ended)
		return 0;
	request->ended_ns = bpf_ktime_get_ns();
	request->inlined = 1;
	__sync_fetch_and_add(&request->ended, 1);
	struct ring_count *sum = ring_sum(call->ring);
	if (sum)
		__sync_fetch_and_add(&sum->inlined, 1);
	return 0;
}

static int aio_reap(__u32 i, struct aio_call *call)
{
	struct io_event event;

	if (bpf_probe_read_user(&event, sizeof(event), (void *)(call->at + i * sizeof(event)))) {
		this_slot()->losses[LOSS_CALL]++;
		return 1;
	}
	aio_reaped(event.obj, call->ring, event.res);
	return 0;
}

static __always_inline bool aio_calls(long nr)
{
	return nr == NR_io_submit || nr == NR_io_getevents || nr == NR_io_pgetevents || nr == NR_io_setup;
}

/* Called at the exit of one of the aio system calls. */
static __noinline int aio_returned(struct pt_regs *regs, long nr, long ret, bool narrow)
{
	struct cpu_slot *slot = this_slot();
	__u64 user_id = narrow ? argument_i386(regs, 1) : call_argument(regs, 1);
	__u64 second = narrow ? argument_i386(regs, 2) : call_argument(regs, 2);

	if (narrow)
		aio_used_as_i386 = 1;
	if (nr == NR_io_setup) {
		struct aio_call where = { .at = second, .narrow = narrow };
		__u64 made;
		if (ret || !block_at(&where, 0, &made))
			return 0;
		struct kioctx *ctx = context_named(made);
		if (ctx)
			number_context((__u64)ctx, false);
		return 0;
	}
	/* A call, not inlined: its stack is free again for later calls. */
	seen_here();
	__u32 tail = slot->aio_tail;
	slot->aio_tail = 0;
	if (!context_called(user_id))
		return 0;
	struct aio_call call = {
		.time_ns = slot->aio_submit_ns,
		.ring = slot->aio_ring,
		.tid = (__u32)bpf_get_current_pid_tgid(),
		.entries = slot->aio_entries,
		.narrow = narrow,
	};
	if (nr != NR_io_submit) {
		call.at = narrow ? argument_i386(regs, 4) : call_argument(regs, 4);
		if (ret > 0)
			bpf_loop(ret, aio_reap, &call, 0);
		return 0;
	}
	if (!tail) {
		if (ret > 0)
			slot->aio_unseen += ret;
		return 0;
	}
	__u64 asked = second;
	__u32 taken = ret > 0 ? ret : 0, wanted = asked < call.entries ? asked : call.entries;
	if (taken < wanted) {
		call.at = narrow ? argument_i386(regs, 3) : call_argument(regs, 3);
		call.first = taken;
		bpf_loop(wanted - taken, aio_refuse, &call, 0);
	}
	__u32 now = tail_of(slot);
	call.user_id = user_id;
	call.first = tail - 1;
	__u32 posted = now >= call.first ? now - call.first : now + call.entries - call.first;
	bpf_loop(posted, aio_look, &call, 0);
	return 0;
}
