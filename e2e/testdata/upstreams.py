"""Says what a framework reads of a request: upstreams.py flask|django|fastapi PORT."""
import sys

NAME, PORT = sys.argv[1], int(sys.argv[2])


def flask_app():
    from flask import Flask, request, jsonify
    app = Flask(__name__)

    @app.get("/login")
    @app.get("/users/@me")
    @app.get("/v1/models/<path:_>:generate")
    def read(_=None):
        auth = request.authorization
        return jsonify(path=str(request.url_rule), query=request.args.get("api_key"), cookie=request.cookies.get("sid"),
                       bearer=auth.token if auth and auth.type == "bearer" else None)
    return app


def django_app():
    from django.conf import settings
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="not one", APPEND_SLASH=False)
    import django
    from django.core.handlers.wsgi import WSGIHandler
    from django.http import JsonResponse
    from django.urls import re_path
    django.setup()

    def read(request, **_):
        return JsonResponse({"path": str(request.resolver_match.route), "query": request.GET.get("api_key"),
                             "cookie": request.COOKIES.get("sid"), "bearer": None})
    global urlpatterns
    urlpatterns = [re_path(p, read) for p in (r"^login$", r"^users/@me$", r"^v1/models/.+:generate$")]
    return WSGIHandler()


def fastapi_app():
    from fastapi import Cookie, Depends, FastAPI, Request
    from fastapi.security import HTTPBearer
    app = FastAPI()
    scheme = HTTPBearer(auto_error=False)

    @app.get("/login")
    @app.get("/users/@me")
    @app.get("/v1/models/{model}:generate")
    def read(request: Request, api_key: str | None = None, sid: str | None = Cookie(None), auth=Depends(scheme)):
        return {"path": request.scope["route"].path, "query": api_key, "cookie": sid,
                "bearer": auth.credentials.strip() if auth else None}
    return app


if NAME == "fastapi":
    import uvicorn
    uvicorn.run(fastapi_app(), host="127.0.0.1", port=PORT, log_level="warning")
else:
    from werkzeug.serving import run_simple
    run_simple("127.0.0.1", PORT, flask_app() if NAME == "flask" else django_app())
