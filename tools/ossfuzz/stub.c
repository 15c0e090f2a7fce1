// A stand-in for libFuzzer where it is not installed: it gives a target a few inputs.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The hooks of instrumented code.
void __sanitizer_cov_8bit_counters_init(char *start, char *end) {}
void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *end) {}
void __sanitizer_cov_trace_cmp1(uint8_t a, uint8_t b) {}
void __sanitizer_cov_trace_cmp2(uint16_t a, uint16_t b) {}
void __sanitizer_cov_trace_cmp4(uint32_t a, uint32_t b) {}
void __sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b) {}
void __sanitizer_cov_trace_const_cmp1(uint8_t a, uint8_t b) {}
void __sanitizer_cov_trace_const_cmp2(uint16_t a, uint16_t b) {}
void __sanitizer_cov_trace_const_cmp4(uint32_t a, uint32_t b) {}
void __sanitizer_cov_trace_const_cmp8(uint64_t a, uint64_t b) {}
void __sanitizer_weak_hook_strcmp(void *pc, const char *a, const char *b, int result) {}

int main(void) {
	static const char *inputs[] = {"", "\"a\";r=5;t=30", "RateLimit: \"a\";r=5;t=30\nX-RateLimit-Remaining: 7\n", "{\"type\":1}"};
	for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
		LLVMFuzzerTestOneInput((const uint8_t *)inputs[i], strlen(inputs[i]));
	return 0;
}
