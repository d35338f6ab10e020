package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"time"
)

// pingRedis reports whether a Redis answers.
func pingRedis(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("redis answered PING with %q", line)
	}
	return err
}

// getReady reports whether Envoy serves.
func getReady(admin string) error {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + admin + "/ready")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("envoy is %s", resp.Status)
	}
	return nil
}
