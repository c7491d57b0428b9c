/* Begins and ends the account of threads that do not switch at that time. */

__u32 account_ends; /* 1: the next task walk ends the account; 0: it starts the account */

/* Accounts a thread that has not switched since the span began, when the task walk finds it. */
static __always_inline void account_taken_up(struct thread_account *account, struct task_struct *task, __u64 now)
{
	if (account->since || account->closed == account_span)
		return;
	account_opens(account, task, now);
	if (is_on_cpu(task)) {
		account->doing = THREAD_RUNNING;
	} else if (task->__state == 0) {
		account->doing = THREAD_PREEMPTED;
	} else {
		account->doing = THREAD_ASLEEP;
		sleep_begins(account, task, task->__state);
	}
}

static __always_inline void account_left(struct thread_account *account, struct task_struct *task, __u64 now)
{
	if (!account->since || account->closed == account_span)
		return;
	__u64 ns = account_turns(account, now);
	if (account->doing == THREAD_RUNNING) {
		account->total.running_ns += ns;
		settle(account, task);
	} else if (account->doing == THREAD_ASLEEP) {
		account->sleep.stack = ns >= LONG_SLEEP_NS ? stack_of_sleep(task) : 0;
		slept(account, ns);
	} else {
		off_ends(account, ns, 0);
	}
	account_closes(account, task, now);
}

/* io_uring_enter busy-polls the network devices of a NAPI ring before it sleeps. That time is counted from the end of the
 * first poll; later polls change nothing.
 */
SEC("tp_btf/napi_poll")
int BPF_PROG(account_napi_poll, void *napi, int work, int budget)
{
	struct cpu_slot *slot = this_slot();
	struct task_struct *task = bpf_get_current_task_btf();
	struct entry entry;

	if (slot->current != CURRENT_SUBMITTER || slot->busy_since || slot->in_softirq || !account_span ||
	    slot->tid != (__u32)task->pid)
		return 0;
	entry_of(task, &entry, false);
	if (entry.nr == NR_io_uring_enter && !entry.finished)
		slot->busy_since = bpf_ktime_get_ns();
	return 0;
}

SEC("iter/task")
int account_walk(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || !watched(task))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	struct thread_account *account =
		bpf_task_storage_get(&thread_accounts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (account && account_ends)
		account_left(account, task, now);
	else if (account)
		account_taken_up(account, task, now);
	return 0;
}
