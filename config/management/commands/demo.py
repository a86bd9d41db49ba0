from config.wiring.demo import demo_of
from config.wiring.web import web
from demo.commands import DemoCommand


class Command(DemoCommand):
    seeder = staticmethod(lambda: demo_of(web()))
