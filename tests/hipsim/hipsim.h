/* Controls of the simulated device, beside HIP's own entry points.
 *
 * Each has an environment variable too, read when the library is loaded; docs/simulated_device.md
 * describes them. Functions that return int return 0 if all is well. */
#ifndef HIPSIM_H_
#define HIPSIM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets an option: arch ("gfx950"), devices, seed, quantum, threads, limit (instructions a wave may
 * execute), checks ("all", "none" or a list such as "waits,races"), buffers ("arguments" or "any"),
 * alignment ("natural" or "dword"), statistics (a file), skip (a kernel's instruction, as its byte
 * offset from the kernel's entry, or "none"), report ("stderr" or "quiet"). Returns 1 for an
 * unknown name or value, and changes nothing then. */
int hipsim_set_option(const char* name, const char* value);

/* Host memory that kernels may be given, such as a buffer of XLA's CPU client. Registering a range
 * that is registered already, with the same address and size, counts; it stays until it is
 * unregistered as often. Its bytes count as written. */
int hipsim_register(void* address, size_t bytes);
int hipsim_unregister(void* address);

/* Declares bytes of registered or device memory never written: reading them is reported as for
 * fresh device memory. With `poison`, they are filled with 0xFF as well, a NaN in every float
 * format. */
int hipsim_mark_undefined(void* address, size_t bytes, int poison);

/* Makes the n-th call of a HIP function from now on (1: the next) fail with a HIP error code. A
 * null name takes all such orders back. */
int hipsim_fail(const char* function, int nth, int code);

/* The report of this process's last launch that failed, or the sentence of the last failed load;
 * empty if there was none. The text lives until the next call in the same thread. */
const char* hipsim_last_report(void);

/* What kind of check stopped the last launch that failed: a word such as "wait", "race", "hazard",
 * "bounds", "alignment", "undefined", "barrier", "limit", "instruction"; empty if none. */
const char* hipsim_last_check(void);

/* Statistics of the last launch, as a line of JSON. The text lives until the next call in the same
 * thread. */
const char* hipsim_statistics(void);

/* The instructions of a kernel of a loaded module that the mutation test may remove, as JSON: a
 * list of {"offset", "size", "effects", "text"} for each s_waitcnt, s_barrier and s_nop, in the
 * order of the code. "effects" counts, over all launches, how often a wait completed an operation,
 * a barrier stopped a wave of several, or a nop was executed. */
const char* hipsim_removable_instructions(void* function);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HIPSIM_H_ */
