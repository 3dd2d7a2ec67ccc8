/* SPDX-License-Identifier: MIT */
/* Make the relocated data of a static program read-only (RELRO): tables of pointers, which an
 * overflow could redirect. A dynamic loader does this; musl's start-up code of a static program
 * does not. Only in the program that is linked with musl. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* The start of the program in memory; the linker defines it. */
extern const char __ehdr_start[] __attribute__((visibility("hidden"))); /* NOLINT: reserved name */

__attribute__((constructor)) static void protect_relocated(void)
{
    const Elf64_Phdr *header = (const Elf64_Phdr *)getauxval(AT_PHDR);
    uintptr_t page = getauxval(AT_PAGESZ);
    for (unsigned long left = getauxval(AT_PHNUM); left > 0; left--, header++) {
        if (header->p_type != PT_GNU_RELRO)
            continue;
        uintptr_t start = ((uintptr_t)__ehdr_start + header->p_vaddr) & -page;
        uintptr_t end = ((uintptr_t)__ehdr_start + header->p_vaddr + header->p_memsz) & -page;
        if (end > start && mprotect((void *)start, end - start, PROT_READ) < 0)
            abort();
    }
}
