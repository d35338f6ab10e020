package main

import "unsafe"

// logLevel is the type that the plugin declares proxy_log with.
type logLevel = uint32

const pluginConfiguration = 7

// proxySetBufferBytes is the one host call here that the plugin does not make.
//
//go:wasmimport env proxy_set_buffer_bytes
func proxySetBufferBytes(kind, start, length uint32, data *byte, dataLen uint32) uint32

func ptr(s string) (*byte, uint32) { return unsafe.StringData(s), uint32(len(s)) }

func str(p *byte, n uint32) string { return unsafe.String(p, n) }

func log(text string) {
	p, n := ptr(text)
	proxyLog(2, p, n)
}

// read makes a host call that returns bytes.
func read(call func(p **byte, n *uint32) (status uint32)) (status uint32, value string) {
	var p *byte
	var n uint32
	status = call(&p, &n)
	return status, str(p, n)
}

func getHeader(kind uint32, name string) (status uint32, value string) {
	q, m := ptr(name)
	return read(func(p **byte, n *uint32) uint32 { return proxyGetHeaderMapValue(kind, q, m, p, n) })
}

func getBuffer(kind, start, length uint32) (status uint32, data string) {
	return read(func(p **byte, n *uint32) uint32 { return proxyGetBufferBytes(kind, start, length, p, n) })
}
