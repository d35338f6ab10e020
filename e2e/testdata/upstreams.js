// Says what Express reads of a request: upstreams.js PORT.
const express = require('express');
const {ExtractJwt} = require('passport-jwt');
const app = express();
app.use(require('cookie-parser')());
const bearer = ExtractJwt.fromAuthHeaderAsBearerToken();
for (const path of ['/login', '/users/:name', '/v1/models/:method']) {
  app.get(path, (req, res) => res.json({
    path: path + JSON.stringify(req.params), query: req.query.api_key ?? null, cookie: req.cookies.sid ?? null, bearer: bearer(req),
  }));
}
app.listen(Number(process.argv[2]), '127.0.0.1');
