//go:build ignore

// The bridge, small enough to stand in Envoy's configuration: an HTTP filter in front of Redis. What goes to Redis loses its gRPC message
// headers, and what comes back gets one, so that plain RESP is on the wire. A message is passed on
// as it comes: its header may state any length, and a peer that never sends so much costs no memory.
//
// "make bridge" compiles it; Go is told to leave it alone. It is C because TinyGo's runtime alone
// would be 27 KB.
// The ABI: https://github.com/proxy-wasm/spec/tree/main/abi-versions/v0.2.1

typedef unsigned char u8;
typedef unsigned int u32;

#define IMPORT(name) __attribute__((import_module("env"), import_name(#name))) name
#define EXPORT(name) __attribute__((export_name(#name))) name

enum { CONTINUE = 0, PAUSE = 1 };       // actions
enum { REQUEST_BODY = 0, RESPONSE_BODY = 1 }; // buffers
enum { RESOURCE_EXHAUSTED = 8, UNIMPLEMENTED = 12 }; // https://grpc.io/docs/guides/status-codes/

u32 IMPORT(proxy_get_buffer_bytes)(u32 buffer, u32 start, u32 size, u8 **bytes, u32 *length);
u32 IMPORT(proxy_set_buffer_bytes)(u32 buffer, u32 start, u32 size, const u8 *bytes, u32 length);
u32 IMPORT(proxy_send_local_response)(u32 status, const char *details, u32 details_length, const char *body,
	u32 body_length, const u8 *headers, u32 headers_length, u32 grpc_status);

// Memory: streams stand at the bottom and are used again; what one callback needs is above them, and
// is free again when the next one begins.
extern u8 __heap_base;
static u8 *streams_end = &__heap_base;
static u8 *top = &__heap_base;

// Envoy calls allocate, by the name malloc, for memory that it returns values in.
__attribute__((export_name("malloc"))) void *allocate(u32 size) {
	u32 begins = ((u32)top + 7) & ~7u;
	u32 pages = __builtin_wasm_memory_size(0);
	unsigned long long needed = ((unsigned long long)begins + size + 0xffff) >> 16;
	if (needed > pages && (needed > 0xffff || __builtin_wasm_memory_grow(0, needed - pages) == ~0ul)) {
		return 0;
	}
	top = (u8 *)(begins + size);
	return (void *)begins;
}

// stream keeps one stream's state between two callbacks.
struct stream {
	struct stream *next;
	u32 id;       // of its context
	u32 left;     // bytes of the message that passes which have not come
	u32 filled;   // bytes of header
	u8 header[5]; // of the next message, as far as it has come
};

static struct stream *streams, *unused;

// find_link is the link to a stream, to 0 if there is none.
static struct stream **find_link(u32 id) {
	struct stream **link = &streams;
	while (*link && (*link)->id != id) {
		link = &(*link)->next;
	}
	return link;
}

void EXPORT(proxy_on_context_create)(u32 id, u32 parent) {
	if (!parent) { // a configuration
		return;
	}
	top = streams_end;
	struct stream *s = unused;
	if (s) {
		unused = s->next;
	} else if ((s = allocate(sizeof *s))) {
		streams_end = top;
	} else {
		return; // the stream ends with its first message
	}
	*s = (struct stream){.next = streams, .id = id};
	streams = s;
}

void EXPORT(proxy_on_delete)(u32 id) {
	struct stream **link = find_link(id), *s = *link;
	if (s) {
		*link = s->next;
		s->next = unused;
		unused = s;
	}
}

static u32 length_in(const u8 *header) {
	return (u32)header[1] << 24 | (u32)header[2] << 16 | (u32)header[3] << 8 | header[4];
}

// fetch is the first bytes of a buffer, 0 if Envoy does not give all of them.
static u8 *fetch(u32 buffer, u32 size) {
	u8 *bytes;
	u32 length;
	top = streams_end;
	return proxy_get_buffer_bytes(buffer, 0, size, &bytes, &length) == 0 && length == size ? bytes : 0;
}

// refuse ends a stream.
static u32 refuse(const char *details, u32 length, u32 grpc_status) {
	proxy_send_local_response(200, details, length, details, length, 0, 0, grpc_status);
	return PAUSE;
}

#define REFUSE(details, grpc_status) refuse(details, sizeof(details) - 1, grpc_status)

// copy is one instruction, memory.copy.
static void copy(u8 *to, const u8 *from, u32 n) { __builtin_memmove(to, from, n); }

// strip moves what is no header to the front of a piece, and returns how much that is; -1 if a
// message is compressed.
static int strip(struct stream *s, u8 *piece, u32 size) {
	u32 at = 0, kept = 0;
	for (;;) {
		u32 n = s->left < size - at ? s->left : size - at;
		copy(piece + kept, piece + at, n);
		kept += n, at += n, s->left -= n;
		if (at == size) {
			return kept;
		}
		while (s->filled < sizeof s->header && at < size) {
			s->header[s->filled++] = piece[at++];
		}
		if (s->header[0]) {
			return -1;
		}
		if (s->filled == sizeof s->header) {
			s->left = length_in(s->header);
			s->filled = 0;
		}
	}
}

u32 EXPORT(proxy_on_request_body)(u32 id, u32 size, u32 end) {
	struct stream *s = *find_link(id);
	if (!size) {
		return CONTINUE;
	}
	if (!s) {
		return REFUSE("sluice: no memory for a stream", RESOURCE_EXHAUSTED);
	}
	if (size <= s->left) { // the middle of a message
		s->left -= size;
		return CONTINUE;
	}
	if (!s->left && !s->filled && size >= sizeof s->header) {
		u8 *header = fetch(REQUEST_BODY, sizeof s->header);
		if (header && !header[0] && length_in(header) == size - sizeof s->header) {
			proxy_set_buffer_bytes(REQUEST_BODY, 0, sizeof s->header, 0, 0); // the usual case
			return CONTINUE;
		}
	}
	u8 *piece = fetch(REQUEST_BODY, size);
	if (!piece) {
		return REFUSE("sluice: no memory for a message", RESOURCE_EXHAUSTED);
	}
	int kept = strip(s, piece, size);
	if (kept < 0) {
		return REFUSE("sluice: a compressed message", UNIMPLEMENTED);
	}
	proxy_set_buffer_bytes(REQUEST_BODY, 0, size, piece, kept);
	return CONTINUE;
}

// The most bytes of Redis' that one message brings: MaxMessageBytes of bridge.go.
#define MAX_REPLIES 1024

// frame writes a message, and returns what is behind it.
static u8 *frame(u8 *to, const u8 *content, u32 size) {
	to[0] = 0, to[1] = size >> 24, to[2] = size >> 16, to[3] = size >> 8, to[4] = size;
	copy(to + 5, content, size);
	return to + 5 + size;
}

u32 EXPORT(proxy_on_response_body)(u32 id, u32 size, u32 end) {
	if (!size) {
		return CONTINUE;
	}
	if (size <= MAX_REPLIES) { // the usual case: nothing is copied
		static u8 header[5];
		header[3] = size >> 8, header[4] = size;
		proxy_set_buffer_bytes(RESPONSE_BODY, 0, 0, header, sizeof header);
		return CONTINUE;
	}
	u8 *piece = fetch(RESPONSE_BODY, size);
	u8 *framed = piece ? allocate(size + (size / MAX_REPLIES + 1) * 5) : 0;
	if (!framed) {
		return REFUSE("sluice: no memory for replies", RESOURCE_EXHAUSTED);
	}
	u8 *to = framed;
	for (u32 at = 0; at < size; at += MAX_REPLIES) {
		to = frame(to, piece + at, size - at < MAX_REPLIES ? size - at : MAX_REPLIES);
	}
	proxy_set_buffer_bytes(RESPONSE_BODY, 0, size, framed, to - framed);
	return CONTINUE;
}

void EXPORT(proxy_abi_version_0_2_1)(void) {}
