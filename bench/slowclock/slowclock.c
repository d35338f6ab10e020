// A clock that runs SLOWCLOCK times slower, for a program that callgrind makes as many times slower:
// what it does by the clock then costs a request about as little as it does in life. Preloaded
// (LD_PRELOAD) by "make count".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { clocks = 8, second = 1000000000 }; // REALTIME, MONOTONIC, ..., BOOTTIME; two of them are CPU time

static long factor = 1;
static long long begun[clocks]; // when the program began, ns

static long long real(clockid_t id) {
	struct timespec t;
	if (syscall(SYS_clock_gettime, id, &t) != 0) return -1;
	return (long long)t.tv_sec * second + t.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
	const char *text = getenv("SLOWCLOCK");
	for (int id = 0; id < clocks; id++) begun[id] = real(id);
	if (text != NULL && atol(text) > 0) factor = atol(text);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	if (id < 0 || id >= clocks || id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID)
		return syscall(SYS_clock_gettime, id, t);
	long long now = begun[id] + (real(id) - begun[id]) / factor;
	t->tv_sec = now / second;
	t->tv_nsec = now % second;
	return 0;
}

int gettimeofday(struct timeval *t, void *zone) {
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t != NULL) *t = now.tv_sec;
	return now.tv_sec;
}

// late is when this clock will show a time, by the real one.
static struct timespec late(clockid_t id, const struct timespec *t) {
	long long shown = (long long)t->tv_sec * second + t->tv_nsec;
	long long due = shown > begun[id] ? begun[id] + (shown - begun[id]) * factor : shown;
	return (struct timespec){due / second, due % second};
}

int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t id, const struct timespec *t) {
	static int (*next)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
	if (next == NULL) next = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
	struct timespec due = late(id, t);
	return next(c, m, id, &due);
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout, const sigset_t *mask) {
	if (timeout > 0) timeout = timeout > INT_MAX / factor ? INT_MAX : timeout * factor;
	return syscall(SYS_epoll_pwait, fd, events, most, timeout, mask, 8);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
	return epoll_pwait(fd, events, most, timeout, NULL);
}
