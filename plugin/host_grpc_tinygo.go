//go:build tinygo

package main

import "unsafe"

// grpcOpen opens a stream; a status other than 0 is a failure.
func (host) grpcOpen(pluginID uint32, service []byte) (token, status uint32) {
	enter(pluginID)
	name, nameLen := pointer("sluice.Redis")
	method, methodLen := pointer("Stream")
	status = proxyGrpcStream(unsafe.SliceData(service), uint32(len(service)), name, nameLen, method, methodLen,
		&noMetadata[0], uint32(len(noMetadata)), &resultToken)
	return resultToken, status
}

// noMetadata is a serialised header map without entries.
var noMetadata [4]byte

func (host) grpcSend(pluginID, token uint32, message []byte) (status uint32) {
	enter(pluginID)
	return proxyGrpcSend(token, unsafe.SliceData(message), uint32(len(message)), 0)
}

func (host) grpcCancel(pluginID, token uint32) {
	enter(pluginID)
	proxyGrpcCancel(token)
}
