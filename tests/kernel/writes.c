// Five write(2) calls and an exit, without libc: all system calls after its execve(2) are known.
static long call(long nr, long a, long b, long c)
{
#if defined(__x86_64__)
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}

#if defined(__x86_64__)
enum { WRITE = 1, EXIT_GROUP = 231 };
#else
enum { WRITE = 64, EXIT_GROUP = 94 };
#endif

void _start(void)
{
	for (int i = 0; i < 5; i++)
		call(WRITE, -1, 0, 0);
	call(EXIT_GROUP, 0, 0, 0);
}
