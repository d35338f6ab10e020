package main

import (
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// What a decision does in Envoy. The limiter is the decide.Host of its Worker.

// Say implements decide.Host: %FILTER_STATE(wasm.sluice)% in access logs.
func (l *limiter) Say(contextID uint32, text string) { l.host.setProperty(contextID, "sluice", text) }

// Answer implements decide.Host.
func (l *limiter) Answer(contextID uint32, r *answer.Rejection) {
	contentType, _ := l.host.header(contextID, requestHeader, "content-type")
	r.GRPC, r.AtMicros = answer.IsGRPC(contentType), l.told(r.AtMicros)
	if l.rejectedState && !r.Undecided {
		l.state = r.AppendState(l.state[:0])
		l.host.setProperty(contextID, "sluice.rejected", text.View(l.state))
	}
	reply, again := l.refusals.Answer(r)
	if !again {
		l.refusals.Wire = appendHeaders(l.refusals.Wire[:0], reply.Headers)
	}
	l.host.sendResponse(contextID, reply.Status, r.Text, l.refusals.Wire, reply.Body, reply.GRPCStatus)
}

// Request, Resume and Warn implement decide.Host.
func (l *limiter) Request(contextID uint32) rule.Request { return l.view.of(contextID) }
func (l *limiter) Resume(contextID uint32)               { l.host.resumeRequest(contextID) }
func (l *limiter) Warn(line string)                      { l.host.logLine(logWarn, line) }

// Report implements decide.Host.
func (l *limiter) Report(contextID uint32, r *answer.Report) {
	contentType, _ := l.host.header(contextID, requestHeader, "content-type")
	r.GRPC = answer.IsGRPC(contentType)
	reply := l.answers.Report(r)
	l.headers = appendHeaders(l.headers[:0], reply.Headers)
	l.host.sendResponse(contextID, reply.Status, r.Text, l.headers, reply.Body, reply.GRPCStatus)
}

// told is the Unix time of decisions: that of the store that made them, or now if none did.
func (l *limiter) told(atMicros int64) int64 {
	if atMicros == 0 {
		return l.host.unixMicros()
	}
	return atMicros
}

// TickWithin implements decide.Host. The metrics and the rest of the limiter wait for ticks,
// too.
func (l *limiter) TickWithin(micros, nowMicros int64) {
	l.tickWithin(decide.Sooner(micros, l.ownNextMicros(nowMicros)), nowMicros)
}

// SetHeaders implements decide.Host. Envoy chooses the route anew.
func (l *limiter) SetHeaders(contextID uint32, headers [][2]string) {
	l.host.setHeaders(contextID, requestHeader, headers)
}

// strip takes from a request that begins the headers that some over sets: they are what Sluice
// says, not what a client does. Others are not touched, as Envoy would choose the route anew.
//
//go:noinline
func (l *limiter) strip(contextID uint32) {
	fields := readFields(l.host.requestHeaders(contextID))
	for name, _, ok := fields.next(); ok; name, _, ok = fields.next() {
		for _, of := range l.rules.OverHeaders { // in the spelling of config.SameHeader
			same := len(name) == len(of)
			for i := 0; same && i < len(name); i++ {
				same = name[i] == of[i] || name[i] == '_' && of[i] == '-'
			}
			if same {
				l.host.removeRequestHeader(contextID, text.View(name))
			}
		}
	}
}
