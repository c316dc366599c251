// Stands before the host's `ptrace`, by LD_PRELOAD. User Mode Linux of 6.1 keeps the state of a process's processor
// (NT_X86_XSTATE) in 2696 bytes. Where a processor has more, as one with AMX has 11,008, the host's kernel lets nobody write
// less than all of it: EFAULT, and the guest's first process dies.
//
// So all of it is written: what the process has now, and over that what the guest says. The rest the guest does not know
// about, and neither saves nor changes.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static long (*next)(enum __ptrace_request, ...);

// Early, since the guest's kernel calls from stacks of its own, which are small.
__attribute__((constructor)) static void find(void) { next = dlsym(RTLD_NEXT, "ptrace"); }

// Not on such a stack either. There is one: the guest's kernel has one processor, does not preempt itself, and asks for
// this state in no interrupt.
static unsigned char whole[64 * 1024];

long ptrace(enum __ptrace_request request, ...) {
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);
    int gets = request == PTRACE_GETREGSET, sets = request == PTRACE_SETREGSET;
    if (!(gets || sets) || (uintptr_t)address != NT_X86_XSTATE)
        return next(request, pid, address, data);

    struct iovec *callers = data, all = {whole, sizeof whole};
    if (next(PTRACE_GETREGSET, pid, address, &all) < 0)
        return -1;
    if (callers->iov_len > all.iov_len)
        callers->iov_len = all.iov_len;
    if (gets) {
        memcpy(callers->iov_base, whole, callers->iov_len);
        return 0;
    }
    memcpy(whole, callers->iov_base, callers->iov_len);
    return next(PTRACE_SETREGSET, pid, address, &all);
}
