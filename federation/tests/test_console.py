"""The console: who sees what, which forms are believed; in Chromium, scripts on and off."""

from __future__ import annotations

import os
import shutil
from contextlib import closing

import httpx
import pytest
from network import confirmed, only_console, opened, pass_the_end, served

from tacit.errors import InvalidArgument
from tacit_federation import sessions
from tacit_federation.certificates import client_context
from tacit_federation.console import console_app
from tacit_federation.sessions import set_password

webdriver = pytest.importorskip("selenium.webdriver")
By = pytest.importorskip("selenium.webdriver.common.by").By
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch):
    """As slow as people's passwords must be would be too slow here: n = 2^5."""
    monkeypatch.setitem(sessions._SCRYPT, "n", 1 << 5)


@pytest.fixture
def place(coordinator, clock):
    for name, role in (("ada", "officer"), ("ann", "analyst")):
        set_password(coordinator.database, name, role, PASSWORD)
    with served(coordinator, console=console_app(coordinator)):
        yield coordinator


def browser(coordinator) -> httpx.Client:
    base = f"https://127.0.0.1:{coordinator.settings.console_port}"
    context = client_context(coordinator.authority.pem, None)
    return httpx.Client(verify=context, trust_env=False, base_url=base, headers={"Origin": base})


def logged_in(coordinator, name="ada") -> httpx.Client:
    http = browser(coordinator)
    reply = http.post("/login", data={"name": name, "password": PASSWORD})
    assert reply.status_code == 303
    cookie = reply.headers["set-cookie"]
    for word in ("__Host-tacit=", "Secure", "HttpOnly", "SameSite=strict", "Path=/"):
        assert word in cookie
    return http


def token_of(http) -> str:
    return http.get("/").text.split('name="token" value="')[1].split('"')[0]


def test_without_a_login_there_is_nothing_to_see(place):
    with browser(place) as http:
        for path in ("/", "/sites", "/log", "/statement", "/report.html", "/studies/" + "f" * 64):
            reply = http.get(path)
            assert (reply.status_code, reply.headers["location"]) == (303, "/login")
        assert http.post("/sites/invite", data={"member": "x"}).status_code == 303
        assert http.get("/login").status_code == 200
        assert http.get("/style.css").headers["content-type"].startswith("text/css")


def test_every_reply_has_its_headers(place):
    with closing(logged_in(place)) as http:
        for path in (
            "/",
            "/login",
            "/sites",
            "/log",
            "/nothing",
            "/studies/xx",
            "/style.css",
            "/logout",
        ):
            headers = http.get(path).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"
            assert headers["x-content-type-options"] == "nosniff"


def test_forms_need_their_token_and_their_origin(place):
    with closing(logged_in(place)) as http:
        token = token_of(http)
        wrong = {"Origin": "https://elsewhere.example"}
        for data, headers in (
            ({"member": "x"}, {}),
            ({"member": "x", "token": "y"}, {}),
            ({"member": "x", "token": token}, wrong),
            ({"member": "x", "token": token}, {"Origin": "null"}),
        ):
            assert http.post("/sites/invite", data=data, headers=headers).status_code == 403
        big = {"member": "x" * 9000, "token": token}
        assert http.post("/sites/invite", data=big).status_code == 400
        assert not place.database.rows("SELECT * FROM invitations")
        reply = http.post("/sites/invite", data={"member": "hospital-z", "token": token})
        assert "tacit-invitation-1:" in reply.text
        odd = http.post("/sites/invite", data={"member": "<b>", "token": token})
        assert odd.status_code == 400
        assert "<b>" not in odd.text
    with browser(place) as http:
        data = {"name": "ada", "password": PASSWORD}
        assert http.post("/login", data=data, headers=wrong).status_code == 403


def test_five_failures_pause_and_sessions_end(place, monkeypatch):
    for limit in ("IDLE_SECONDS", "LONGEST_SECONDS"):
        with closing(logged_in(place)) as http, monkeypatch.context() as patched:
            assert http.get("/").status_code == 200
            patched.setattr(sessions, limit, -1)
            assert http.get("/").status_code == 303
            reply = http.post("/sites/invite", data={"member": "x", "token": "y"})
            assert reply.headers["location"] == "/login"
    with browser(place) as http:
        for _ in range(5):
            assert http.post("/login", data={"name": "ada", "password": "no"}).status_code == 403
        right = {"name": "ada", "password": PASSWORD}
        assert http.post("/login", data=right).status_code == 403
        assert http.post("/login", data={**right, "name": "ann"}).status_code == 303
    for name, role, password in (
        ("ada", "officer", "short"),
        ("Ada", "officer", PASSWORD),
        ("ada", "king", PASSWORD),
    ):
        with pytest.raises(InvalidArgument):
            set_password(place.database, name, role, password)


def test_analysts_see_studies_and_nothing_more(place):
    with closing(logged_in(place, "ann")) as http:
        assert http.get("/").status_code == 200
        assert http.get("/statement").status_code == 200
        for path in ("/sites", "/log"):
            assert http.get(path).status_code == 403
        token = token_of(http)
        for path in ("/sites/invite", "/sites/x/revoke", f"/studies/{'f' * 64}/release"):
            assert http.post(path, data={"token": token}).status_code == 403
        assert http.post("/logout", data={"token": token}).status_code == 303
        assert http.get("/").status_code == 303


@pytest.fixture
def chromium(request):
    """A browser that trusts this coordinator's certificate by name; scripts as the test wants."""
    if shutil.which("chromedriver") is None:
        pytest.skip("chromedriver is not installed")
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--ignore-certificate-errors", "--disable-gpu"):
        options.add_argument(word)
    if not request.param:
        scripts = {"profile.managed_default_content_settings.javascript": 2}
        options.add_experimental_option("prefs", scripts)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.mark.parametrize("chromium", [False, True], ids=["no scripts", "scripts"], indirect=True)
def test_an_officer_carries_a_study_through_in_chromium(chromium, network, clock, request):
    coordinator, sites = network
    set_password(coordinator.database, "ada", "officer", PASSWORD)
    study = opened(coordinator)
    with only_console(coordinator) as base:
        chromium.get(base)
        for name, text in (("name", "ada"), ("password", PASSWORD)):
            chromium.find_element(By.NAME, name).send_keys(text)
        press(chromium, "Log in")
        follow(chromium, "a small study")
        shows(chromium, "2 of 3 sites")
        confirmed(coordinator, sites, clock, study)
        pass_the_end(clock, study)
        press(chromium, "Close")
        shows(chromium, "The study is closed")
        press(chromium, "Release")
        shows(chromium, "The study is released")
        look(chromium, "study", request)
        follow(chromium, "Audit log")
        shows(chromium, "Verified just now")
        look(chromium, "log", request)
        follow(chromium, "Statement")
        shows(chromium, "It presumes that")
        look(chromium, "statement", request)
        follow(chromium, "Sites")
        shows(chromium, "Enrolled")
        chromium.find_element(By.NAME, "member").send_keys("hospital-z")
        press(chromium, "Invite")
        shows(chromium, "tacit-invitation-1:")
        look(chromium, "sites", request)
        chromium.get(base)
        look(chromium, "studies", request)


def look(chromium, name, request):
    """Let nothing stick out of a desk's or a phone's screen; keep pictures where one asks."""
    for width in (1280, 390):
        chromium.set_window_size(width, 900)
        if request.node.callspec.id == "scripts":
            script = (
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert chromium.execute_script(script) <= 0, (name, width)
        if folder := os.environ.get("TACIT_PICTURES"):
            chromium.get_screenshot_as_file(f"{folder}/{name}-{width}.png")


def shows(chromium, text):
    """Wait for the page that a click has asked for."""
    WebDriverWait(chromium, 60).until(lambda browser: text in browser.page_source, text)


def press(chromium, label):
    chromium.find_element(By.XPATH, f"//button[normalize-space()='{label}']").click()


def follow(chromium, link):
    shows(chromium, link)
    chromium.find_element(By.LINK_TEXT, link).click()


def test_a_new_password_logs_out_whoever_had_the_old_one(coordinator):
    set_password(coordinator.database, "ben", "officer", PASSWORD)
    people = sessions.Sessions(coordinator.database)
    cookie = people.log_in("ben", PASSWORD)
    assert people.find(cookie).role == "officer"
    set_password(coordinator.database, "ben", "analyst", PASSWORD)
    assert people.find(cookie) is None
    assert people.find(people.log_in("ben", PASSWORD)).role == "analyst"


def test_many_guesses_at_once_are_no_more_than_five(coordinator, monkeypatch):
    set_password(coordinator.database, "ben", "officer", PASSWORD)
    people, made = sessions.Sessions(coordinator.database), []

    def slowly(*_):
        made.append(1)
        if len(made) < 20:  # the next guess comes while this one is looked at
            people.log_in("ben", "wrong")
        return "no"

    monkeypatch.setattr(sessions, "_hashed", slowly)
    people.log_in("ben", "wrong")
    assert len(made) == 5
