/*
 * Intel's architectural performance counters, version 2, for rdt.c, which includes this file after its counts: four
 * general counters and three fixed ones (instructions, cycles, reference cycles). Nothing is counted as it happens: a
 * counter is the difference of a processor's sums since the counter's last change. Source: Intel SDM, volume 3, chapter
 * "Performance Monitoring".
 */
enum { GENERAL = 4, FIXED = 3, PMCS = GENERAL + FIXED, PMC_BITS = 48 };
enum { MSR_PMC0 = 0xc1, MSR_A_PMC0 = 0x4c1, MSR_PERFEVTSEL0 = 0x186, MSR_FIXED_CTR0 = 0x309 };
enum { MSR_FIXED_CTR_CTRL = 0x38d, MSR_PERF_GLOBAL_CTRL = 0x38f };
enum { PMU_VERSION = 2, ARCHITECTURAL_EVENTS = 7 };
enum { PMU_EAX = PMU_VERSION | GENERAL << 8 | PMC_BITS << 16 | ARCHITECTURAL_EVENTS << 24, PMU_EDX = FIXED | PMC_BITS << 5 };
enum { NOTHING, INSTRUCTIONS, CYCLES, REFERENCES, MISSES };
#define PMC_MASK ((1ull << PMC_BITS) - 1)

static uint64_t pmc[MAX_VCPUS][PMCS], pmc_from[MAX_VCPUS][PMCS]; /* values at the last change; the sums then */
static uint64_t perfevtsel[MAX_VCPUS][GENERAL], fixed_ctrl[MAX_VCPUS], global_ctrl[MAX_VCPUS];

/* What a counter counts now. */
static int counted_by(unsigned cpu, int i)
{
    if (i >= GENERAL)
        return !(fixed_ctrl[cpu] >> 4 * (i - GENERAL) & 3) || !(global_ctrl[cpu] >> (32 + i - GENERAL) & 1) ? NOTHING
               : i == GENERAL ? INSTRUCTIONS : CYCLES;
    if (!(perfevtsel[cpu][i] >> 22 & 1) || !(global_ctrl[cpu] >> i & 1))
        return NOTHING;
    switch (perfevtsel[cpu][i] & 0xffff) {                    /* unit mask and event */
    case 0x00c0: return INSTRUCTIONS;
    case 0x003c: case 0x013c: return CYCLES;
    case 0x4f2e: return REFERENCES;
    case 0x412e: return MISSES;
    default: return NOTHING;
    }
}

/* A processor's sum. */
static uint64_t sum_of(unsigned cpu, int what)
{
    uint64_t done = qemu_plugin_u64_get(instructions, cpu);

    return what == INSTRUCTIONS ? done
           : what == CYCLES ? done + waited[cpu]
           : what == REFERENCES ? qemu_plugin_u64_get(accesses, cpu)
           : what == MISSES ? lines(cpu) : 0;
}

/* Brings the counters up to date, before anything about them changes or is read. */
static void pmu_settle(unsigned cpu)
{
    for (int i = 0; i < PMCS; i++) {
        uint64_t now = sum_of(cpu, counted_by(cpu, i));

        pmc[cpu][i] = (pmc[cpu][i] + now - pmc_from[cpu][i]) & PMC_MASK;
        pmc_from[cpu][i] = now;
    }
}

/* The register of an MSR; NULL: it is not the PMU's. */
static uint64_t *pmu_register(unsigned cpu, uint32_t msr)
{
    return msr - MSR_PMC0 < GENERAL ? &pmc[cpu][msr - MSR_PMC0]
           : msr - MSR_A_PMC0 < GENERAL ? &pmc[cpu][msr - MSR_A_PMC0]
           : msr - MSR_PERFEVTSEL0 < GENERAL ? &perfevtsel[cpu][msr - MSR_PERFEVTSEL0]
           : msr - MSR_FIXED_CTR0 < FIXED ? &pmc[cpu][GENERAL + msr - MSR_FIXED_CTR0]
           : msr == MSR_FIXED_CTR_CTRL ? &fixed_ctrl[cpu]
           : msr == MSR_PERF_GLOBAL_CTRL ? &global_ctrl[cpu] : NULL;
}

static bool pmu_write(unsigned cpu, uint32_t msr, uint64_t value)
{
    uint64_t *found = pmu_register(cpu, msr);

    if (!found)
        return false;
    pmu_settle(cpu);
    if (msr - MSR_PMC0 < GENERAL)
        value = (int32_t)value;                               /* the old MSRs write 32 bits with their sign */
    *found = found >= pmc[cpu] && found < pmc[cpu] + PMCS ? value & PMC_MASK : value;
    for (int i = 0; i < PMCS; i++)
        pmc_from[cpu][i] = sum_of(cpu, counted_by(cpu, i));
    return true;
}

static bool pmu_read(unsigned cpu, uint32_t msr, uint64_t *value)
{
    uint64_t *found = pmu_register(cpu, msr);

    if (!found)
        return false;
    pmu_settle(cpu);
    *value = *found;
    return true;
}

static void pmu_answer(unsigned cpu, uint64_t value, void *next)
{
    set(cpu, RAX, (uint32_t)value), set(cpu, RDX, value >> 32);
    qemu_plugin_set_pc((uint64_t)(uintptr_t)next);
}

static void on_rdpmc(unsigned cpu, void *next)
{
    uint32_t which = get(cpu, RCX);

    pmu_settle(cpu);
    pmu_answer(cpu, pmc[cpu][((which >> 30 & 1 ? GENERAL : 0) + (which & 0xff)) % PMCS], next);
}
